"""Attention put together in every way that a paper has, for the checks that all must pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from recsys_attn.attention import Disagreement, MultiHeadAttention
from recsys_attn.attention.patterns import (
    Block,
    Causal,
    Dilated,
    EdgeBlocks,
    Global,
    Local,
    PerHead,
    Prefix,
    Prepended,
    RandomBlocks,
)
from recsys_attn.serialization import serialize
from tests.support.layer_case import SIZES, LayerCase

LENGTH = SIZES["S"]  # the most that parts of a fixed length are made for


@dataclass(frozen=True)
class Composition:
    """A `MultiHeadAttention` in one of its forms.

    Args:
        mechanism: What fills its slot.
        options: Its other arguments.
        crosses: Whether queries may come from elsewhere than the keys, in another number.
        causal: Whether it promises not to look ahead.
    """

    mechanism: Any
    options: dict[str, Any] = field(default_factory=dict)
    crosses: bool = True
    causal: bool = False

    @cached_property
    def case(self) -> LayerCase:
        config = {"num_heads": 2, "head_dim": 4, "mechanism": self.mechanism, **self.options}
        if self.crosses:
            return LayerCase(
                MultiHeadAttention,
                config,
                {"query": "BTE", "value": "BSE"},
                {"query_mask": "BT", "value_mask": "BS"},
                {"value_mask": "value", "query_mask": "query"},
                ("query_mask", "value_mask"),
            )
        return LayerCase(
            MultiHeadAttention,
            config,
            {"query": "BSE"},
            {"query_mask": "BS"},
            {"query_mask": "query"},
            ("query_mask",),
        )


def part(class_name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": class_name, "config": config}


def dense(score: Any = "scaled_dot", pattern: Any = None, **config: Any) -> dict[str, Any]:
    return part("dense", score=score, pattern=serialize(pattern), **config)


def total(*scores: Any) -> dict[str, Any]:
    return part("sum", scores=list(scores))


_SCORES = {
    "scaled dot": Composition("transformer"),
    "dot": Composition("autoint"),
    "general": Composition(dense("general")),
    "additive": Composition(part("additive", units=5)),
    "cosine": Composition(part("content_addressing", sharpness=3.0)),
    "HAN": Composition("han"),
    "key only, AFM": Composition(part("afm", units=5)),
    "location": Composition(dense(part("location", length=LENGTH))),
    "DIN": Composition(part("din", units=[5, 3])),
    **{
        f"synthesizer, {kind}": Composition(
            dense(part(f"{kind}_synthesizer", length=LENGTH)), crosses=False
        )
        for kind in ("dense", "random", "factorised_random")
    },
    "synthesizer, factorised_dense": Composition(
        dense(part("factorised_dense_synthesizer", length=8, factor=4)), crosses=False
    ),
    "synthesizer, sum with dot": Composition(
        dense(total("scaled_dot", part("random_synthesizer", length=LENGTH))), crosses=False
    ),
    "synthesizer, mixture": Composition(
        dense(
            part(
                "mixture",
                scores=["scaled_dot", part("dense_synthesizer", length=LENGTH)],
            )
        ),
        crosses=False,
    ),
    "Transformer-XL": Composition(
        part("transformer_xl", max_distance=3), causal=True, crosses=False
    ),
    "XLNet": Composition(part("xlnet", max_distance=3)),
    "T5": Composition(part("t5", num_buckets=8, max_distance=5)),
    "ALiBi": Composition("alibi"),
    "rotary": Composition("rotary"),
    "intervals in keys and values": Composition(
        dense(
            total("scaled_dot", part("time_intervals", max_interval=3)),
            pair_values=part("time_intervals", max_interval=3),
        ),
        crosses=False,
    ),
    "times and places": Composition(
        dense(
            total(
                "dot",
                part("time_buckets", num_buckets=3),
                part("relative_buckets", num_buckets=8, max_distance=5),
            )
        ),
        crosses=False,
    ),
    "shared query and key": Composition(dense("shared_dot"), crosses=False),
    "disentangled, DESTINE": Composition("disentangled", crosses=False),
}
_PATTERNS = {
    "causal": Composition(dense(pattern=Causal()), causal=True, crosses=False),
    "local-m": Composition(part("local_m", width=2), crosses=False),
    "window of the past": Composition(dense(pattern=Local(2, 0)), causal=True, crosses=False),
    "dilated, causal": Composition(
        dense(pattern=Dilated(2, 2) & Causal()), causal=True, crosses=False
    ),
    "prefix": Composition(dense(pattern=Prefix(2)), crosses=False),
    "sparse, strided": Composition(
        part("sparse_transformer", stride=3), causal=True, crosses=False
    ),
    "sparse, fixed": Composition(
        part("sparse_transformer", stride=3, summary=1), causal=True, crosses=False
    ),
    "Longformer, dense": Composition(dense(pattern=Local(1) | Global((0,))), crosses=False),
    "BigBird, dense": Composition(
        dense(pattern=Block(1, 0) | EdgeBlocks(1) | RandomBlocks(1, 1, seed=3)), crosses=False
    ),
    "prepended tokens": Composition(dense(pattern=Prepended(2, Local(1))), crosses=False),
    "a pattern a head": Composition(
        dense(pattern=PerHead((Local(1), Dilated(1, 2)))), crosses=False
    ),
}
_WEIGHTINGS = {
    "identity": Composition(dense(weighting="identity")),
    "sigmoid": Composition(dense(weighting="sigmoid")),
    "sparsemax": Composition("sparsemax"),
    "entmax": Composition(dense(weighting="entmax")),
    "top k": Composition(dense(weighting=part("top_k", k=2))),
    "talking heads": Composition("talking_heads"),
    "talking heads around DIN": Composition(
        dense(weighting=part("talking_heads", weighting="identity"))
    ),
    "a sink, capped and normalised scores": Composition(
        dense(
            part("soft_cap", score=part("temperature", score=part("qk_norm", score="rotary"))),
            weighting="attention_sink",
        )
    ),
    "HSTU": Composition(
        "hstu", {"value": "silu", "activation": "silu", "gate": part("output", activation="silu")}
    ),
    "local-p": Composition(part("local_p", width=3.0)),
}
_ROUTED = {
    "window, routed": Composition(part("local", window=2), crosses=False),
    "window, routed, causal": Composition(
        part("local", window=2, pattern=serialize(Causal())), causal=True, crosses=False
    ),
    "Longformer": Composition(part("longformer", window=2), crosses=False),
    "Longformer, second projections": Composition(
        part("longformer", window=2, tokens=[0, -1], global_projections=True), crosses=False
    ),
    "BigBird": Composition(part("bigbird", size=1, count=1), crosses=False),
    "BigBird, a plan a head": Composition(
        part("bigbird", size=1, count=1, seed=[3, 4]), crosses=False
    ),
    "Reformer": Composition(part("reformer", size=3, buckets=2, rounds=2), crosses=False),
    "routing": Composition(part("routing_transformer", clusters=2, window=4), crosses=False),
    "Sinkhorn": Composition(
        part("routed", router=part("sinkhorn", size=2, length=LENGTH + 1)), crosses=False
    ),
    "Reformer, causal": Composition(
        part("reformer", size=3, buckets=2, rounds=2, causal=True), causal=True, crosses=False
    ),
    "routing, causal": Composition(
        part("routing_transformer", clusters=2, window=4, causal=True), causal=True, crosses=False
    ),
    "Sinkhorn, causal": Composition(
        part("sinkhorn", size=2, length=LENGTH + 1, causal=True), causal=True, crosses=False
    ),
}
_RETRIEVED = {
    "retrieved, LSH": Composition(part("lookup", router=part("lsh", size=3, buckets=2, rounds=2))),
    "retrieved, k-means": Composition(part("lookup", router=part("k_means", clusters=2, window=4))),
    "retrieved, blocks": Composition(
        part(
            "lookup",
            router=part("blocks", size=2, first=1, random=1),
            pattern=serialize(Local(2) | Global((0,))),
        )
    ),
    "retrieved, Sinkhorn": Composition(
        part("lookup", router=part("sinkhorn", size=2, length=LENGTH + 1))
    ),
}
_COMPRESSED = {
    "Linformer": Composition(part("linformer", rank=3, length=LENGTH)),
    "memory-compressed": Composition("memory_compressed"),
    "memory-compressed, causal": Composition(
        part("memory_compressed", stride=2, causal=True), causal=True, crosses=False
    ),
    "mean of events": Composition(part("compressed", compressor=part("pool", size=2))),
    "maximum of events, causal": Composition(
        part("compressed", compressor=part("pool", size=2, kind="max"), causal=True),
        causal=True,
        crosses=False,
    ),
    "segments": Composition(part("compressed", compressor=part("segments", summaries=3))),
    "maxima of segments": Composition(
        part("compressed", compressor=part("segments", summaries=4, kind="max"))
    ),
    "memory-compressed, segments": Composition(part("memory_compressed", stride=2, summaries=3)),
    "chain, causal": Composition(
        part(
            "compressed",
            compressor=part(
                "chain",
                compressors=[part("convolution", width=2, stride=1), part("pool", size=2)],
            ),
            causal=True,
        ),
        causal=True,
        crosses=False,
    ),
}
_MAPS = {
    "efficient": "efficient_attention",
    "elu": "linear_transformer",
    "FAVOR+": part("performer", features=8),
    "FAVOR+, relu": part(
        "linear", feature_map=part("favor", features=8, kernel="relu"), causal=False
    ),
    "FAVOR+, redrawn": part(
        "linear", feature_map=part("favor", features=8, redraw_every=1), causal=False
    ),
    "random Fourier": part("random_feature_attention", features=8),
    "Taylor": "taylor",
}


def _causal(mechanism: Any) -> dict[str, Any]:
    short = part(mechanism) if isinstance(mechanism, str) else mechanism
    return {**short, "config": {**short["config"], "causal": True}}


_LINEAR = {
    **{f"linear, {name}": Composition(mechanism) for name, mechanism in _MAPS.items()},
    **{
        f"linear, {name}, causal": Composition(_causal(mechanism), causal=True, crosses=False)
        for name, mechanism in _MAPS.items()
    },
}
_DECAYED = {
    "retention": Composition("retention"),
    "retention, causal": Composition(_causal("retention"), causal=True, crosses=False),
    "gated linear, causal": Composition(
        _causal(part("gated_linear_attention", temperature=2.0)), causal=True, crosses=False
    ),
    "gated random features": Composition(
        part(
            "random_feature_attention",
            features=8,
            decay=part("gate", enters=True, temperature=1.0),
        )
    ),
}
_HEADS = {
    "half local, half routed": Composition(
        part(
            "head_groups",
            mechanisms=[
                part("local", window=2),
                part("routing_transformer", clusters=2, window=4),
            ],
        ),
        crosses=False,
    ),
    "half local, half routed, causal": Composition(
        part(
            "head_groups",
            mechanisms=[
                dense("shared_dot", pattern=Causal()),
                part("reformer", size=3, buckets=2, causal=True),
            ],
            heads=[1, 1],
        ),
        causal=True,
        crosses=False,
    ),
    "values as they are": Composition("transformer", {"value": "identity"}),
    "values activated": Composition("transformer", {"value": "relu", "use_bias": False}),
    "keys shared by heads, small values": Composition(
        "rotary", {"num_heads": [4, 2], "head_dim": [4, 3]}
    ),
    "gated output": Composition("transformer", {"gate": "output"}),
    "Hard-Concrete": Composition("transformer", {"gate": part("hard_concrete", penalty=0.01)}),
    "disagreement": Composition(
        "transformer", {"disagreement": serialize(Disagreement(0.1, 0.2, 0.3, name="disagreement"))}
    ),
}
COMPOSITIONS: dict[str, Composition] = {
    **_SCORES,
    **_PATTERNS,
    **_WEIGHTINGS,
    **_ROUTED,
    **_RETRIEVED,
    **_COMPRESSED,
    **_LINEAR,
    **_DECAYED,
    **_HEADS,
}
