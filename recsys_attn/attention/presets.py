"""Presets: mechanisms of papers by name, made of their parts.

A preset's name works wherever a mechanism is expected, and so does
`{"class_name": "performer", "config": {"features": 128}}`. Other keyword arguments are those of
the mechanism, such as `pattern`, `causal` or `dropout`. `docs/reference/attention.md` says which
preset serves which purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import keras

from recsys_attn.attention.mechanisms.base import MECHANISMS, with_presets
from recsys_attn.attention.mechanisms.compressed import Compressed
from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.attention.mechanisms.linear import Linear
from recsys_attn.attention.mechanisms.routed import Routed
from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.attention.patterns.blocks import Block
from recsys_attn.attention.patterns.strided import Fixed, Strided
from recsys_attn.attention.patterns.tokens import Global
from recsys_attn.attention.patterns.window import Causal, Local
from recsys_attn.attention.routers.global_tokens import token_positions
from recsys_attn.checks import require_not_negative, require_number, require_positive
from recsys_attn.serialization import deserialize, serialize, unshared
from recsys_attn.tensors import Config

PRESETS: dict[str, Callable[..., keras.layers.Layer]] = MECHANISMS.reserved
get = with_presets().get
_Preset = TypeVar("_Preset", bound=Callable[..., keras.layers.Layer])


def _preset(function: _Preset) -> _Preset:
    """Enters a preset under its own name."""
    PRESETS[function.__name__] = function
    return function


@_preset
def transformer(**kwargs: Any) -> Dense:
    """Scaled dot product and softmax: Vaswani et al., NIPS 2017, arXiv 1706.03762."""
    return Dense("scaled_dot", **kwargs)


@_preset
def additive(units: int | None = None, **kwargs: Any) -> Dense:
    """`v^T tanh(W_q q + W_k k)`: Bahdanau et al., ICLR 2015, arXiv 1409.0473."""
    return Dense(_part("additive", units=units), **kwargs)


@_preset
def content_addressing(sharpness: float = 1.0, **kwargs: Any) -> Dense:
    """`softmax(beta cos(q, k))`: Graves et al., 2014, arXiv 1410.5401."""
    require_number("sharpness", sharpness, above=0)
    return Dense(_part("cosine", temperature=1 / sharpness), **kwargs)


@_preset
def local_p(width: float = 10.0, score: Any = "general", **kwargs: Any) -> Dense:
    """A window and a bell around a predicted position: Luong et al., 2015, arXiv 1508.04025."""
    return Dense(score, weighting=_part("gaussian", width=width), **kwargs)


@_preset
def local_m(width: int = 10, score: Any = "general", pattern: Any = None, **kwargs: Any) -> Dense:
    """A window around the query's own position: Luong et al., 2015, arXiv 1508.04025."""
    require_positive("width", width)
    return Dense(score, _and(Local(width), pattern), **kwargs)


@_preset
def han(**kwargs: Any) -> Dense:
    """`softmax(q . tanh(W k + b))`, the query a context vector: Yang et al., NAACL-HLT 2016."""
    return Dense(_part("general", activation="tanh", use_bias=True), **kwargs)


@_preset
def afm(units: int | None = None, **kwargs: Any) -> Dense:
    """`softmax(v^T relu(W k + b))` over pairs of fields: Xiao et al., 2017, arXiv 1708.04617."""
    return Dense(_part("key_only", units=units, activation="relu"), **kwargs)


@_preset
def din(
    units: Sequence[int] = (80, 40),
    activation: Any = "dice",
    weighting: Any = "identity",
    **kwargs: Any,
) -> Dense:
    """An MLP's score, not normalised: Zhou et al., KDD 2018, arXiv 1706.06978."""
    score = _part("mlp", units=units, activation=activation)
    return Dense(score, weighting=weighting, **kwargs)


@_preset
def interest(units: Sequence[int] = (80, 40), **kwargs: Any) -> Dense:
    """DIN's score with ReLU, which has no batch statistics."""
    return din(units, activation="relu", **kwargs)


@_preset
def autoint(**kwargs: Any) -> Dense:
    """Dot product, not scaled, and softmax: Song et al., CIKM 2019, arXiv 1810.11921."""
    return Dense("dot", **kwargs)


@_preset
def transformer_xl(max_distance: int = 128, pattern: Any = "causal", **kwargs: Any) -> Dense:
    """Content and position biases, causal: Dai et al., ACL 2019, arXiv 1901.02860."""
    scores = [
        _part("dot", scale=True, query_bias=True),
        _part("relative_dot", max_distance=max_distance, scale=True),
    ]
    return Dense(_part("sum", scores=scores), pattern, **kwargs)


@_preset
def xlnet(max_distance: int = 128, **kwargs: Any) -> Dense:
    """Transformer-XL's score in both directions, masked by a permutation: arXiv 1906.08237."""
    return transformer_xl(max_distance, **{"pattern": None, **kwargs})


@_preset
def t5(num_buckets: int = 32, max_distance: int = 128, **kwargs: Any) -> Dense:
    """A bias by bucket of distance, not scaled: Raffel et al., 2020, arXiv 1910.10683."""
    bias = _part("relative_buckets", num_buckets=num_buckets, max_distance=max_distance)
    return Dense(_part("sum", scores=["dot", bias]), **kwargs)


@_preset
def alibi(**kwargs: Any) -> Dense:
    """A penalty that grows with distance: Press et al., ICLR 2022, arXiv 2108.12409."""
    return Dense(_part("sum", scores=["scaled_dot", "alibi"]), **kwargs)


@_preset
def rotary(base: float = 10000.0, **kwargs: Any) -> Dense:
    """Queries and keys turned by their positions: Su et al., 2021, arXiv 2104.09864."""
    return Dense(_part("rotary", base=base), **kwargs)


@_preset
def synthesizer(kind: str = "dense", length: int | None = None, **kwargs: Any) -> Dense:
    """Weights that ignore the keys: Tay et al., ICML 2021, arXiv 2005.00743.

    `kind` is `"dense"`, `"random"`, `"factorised_dense"` or `"factorised_random"`.
    """
    return Dense(_part(f"{kind}_synthesizer", length=length), **kwargs)


@_preset
def talking_heads(score: Any = "scaled_dot", **kwargs: Any) -> Dense:
    """Heads mixed before and after the softmax: Shazeer et al., 2020, arXiv 2003.02436."""
    return Dense(score, weighting="talking_heads", **kwargs)


@_preset
def sparsemax(score: Any = "scaled_dot", **kwargs: Any) -> Dense:
    """Weights of which many are zero: Martins and Astudillo, ICML 2016, arXiv 1602.02068."""
    return Dense(score, weighting="sparsemax", **kwargs)


@_preset
def hstu(length: int | None = None, **kwargs: Any) -> Dense:
    """`silu(q . k + bias by distance) / length`: Zhai et al., ICML 2024, arXiv 2402.17152."""
    score = _part("sum", scores=["dot", "relative_buckets"])
    return Dense(score, weighting=_part("silu", length=length), **kwargs)


@_preset
def sparse_transformer(
    stride: int = 128, summary: int | None = None, pattern: Any = None, **kwargs: Any
) -> Dense:
    """The last `stride` keys and every `stride`-th; with `summary`, blocks and their last keys.

    Source: Child et al., 2019, arXiv 1904.10509 ("strided", and "fixed" with `summary`).
    """
    require_positive("stride", stride)
    if summary is not None:
        require_positive("summary", summary)
    near_and_far = (
        Local(stride, 0) | Strided(stride)
        if summary is None
        else Block(stride) | Fixed(stride, summary)
    )
    return Dense(pattern=_and(near_and_far & Causal(), pattern), **kwargs)


@_preset
def local(window: int = 64, pattern: Any = None, **kwargs: Any) -> Routed:
    """A window on both sides; the cost grows with the length times the window."""
    require_positive("window", window)
    inside = _and(Local(window), pattern)
    blocks = _part("blocks", size=window, after=0 if inside.is_causal else 1)
    return Routed(blocks, pattern=inside, **kwargs)


@_preset
def longformer(
    window: int = 64, tokens: Sequence[int] = (0,), pattern: Any = None, **kwargs: Any
) -> Routed:
    """A window, and global `tokens`: Beltagy et al., 2020, arXiv 2004.05150.

    With `global_projections=True` they have projections of their own, as in the paper.
    """
    require_positive("window", window)
    if isinstance(tokens, str) or not isinstance(tokens, Sequence) or not tokens:
        raise ValueError(
            "`tokens` must be a list of positions of global tokens; negative ones count from the "
            f"last event. Received: tokens={tokens!r}"
        )
    tokens = token_positions(list(tokens))
    blocks = _part("blocks", size=window, tokens=list(tokens))
    return Routed(blocks, pattern=_and(Local(window) | Global(tokens), pattern), **kwargs)


@_preset
def bigbird(size: int = 64, count: int = 3, seed: int | Sequence[int] = 0, **kwargs: Any) -> Routed:
    """Neighbouring, first, last and random blocks: Zaheer et al., arXiv 2007.14062."""
    require_not_negative("count", count)
    return Routed(_part("blocks", size=size, first=1, last=1, random=count, seed=seed), **kwargs)


@_preset
def reformer(
    size: int = 64, buckets: int = 32, rounds: int = 4, causal: bool = False, **kwargs: Any
) -> Routed:
    """Buckets of a locality-sensitive hash: Kitaev et al., arXiv 2001.04451."""
    router = _part("lsh", size=size, buckets=buckets, rounds=rounds, causal=causal)
    return Routed(router, **kwargs)


@_preset
def routing_transformer(
    clusters: int = 16, window: int = 64, causal: bool = False, **kwargs: Any
) -> Routed:
    """Clusters of k-means: Roy et al., TACL 2021, arXiv 2003.05997."""
    return Routed(_part("k_means", clusters=clusters, window=window, causal=causal), **kwargs)


@_preset
def sinkhorn(
    size: int = 64, length: int | None = None, causal: bool = False, **kwargs: Any
) -> Routed:
    """Blocks in a learned order: Tay et al., ICML 2020, arXiv 2002.11296."""
    return Routed(_part("sinkhorn", size=size, length=length, causal=causal), **kwargs)


@_preset
def linformer(rank: int = 64, length: int | None = None, **kwargs: Any) -> Compressed:
    """Keys projected along the sequence: Wang et al., 2020, arXiv 2006.04768."""
    return Compressed(_part("low_rank", rank=rank, length=length), **kwargs)


@_preset
def memory_compressed(stride: int = 3, summaries: int | None = None, **kwargs: Any) -> Compressed:
    """Keys convolved along the sequence: Liu et al., ICLR 2018, arXiv 1801.10198.

    With `summaries`, they are then pooled to at most that number, at a linear cost.
    """
    require_positive("stride", stride)
    compressor = _part("convolution", width=stride, stride=stride)
    if summaries is not None:
        segments = _part("segments", summaries=summaries)
        compressor = _part("chain", compressors=[compressor, segments])
    return Compressed(compressor, **kwargs)


@_preset
def efficient_attention(**kwargs: Any) -> Linear:
    """Softmax of queries over channels, of keys over positions: WACV 2021, arXiv 1812.01243."""
    return Linear("softmax", **kwargs)


@_preset
def linear_transformer(**kwargs: Any) -> Linear:
    """`elu + 1`: Katharopoulos et al., ICML 2020, arXiv 2006.16236."""
    return Linear("elu", **kwargs)


@_preset
def retention(**kwargs: Any) -> Linear:
    """A fixed decay of each head: Sun et al., 2023, arXiv 2307.08621, with division by totals."""
    return Linear(decay="fixed", **kwargs)


@_preset
def gated_linear_attention(temperature: float = 16.0, **kwargs: Any) -> Linear:
    """A forget gate of each channel: Yang et al., ICML 2024, arXiv 2312.06635, with division."""
    return Linear(decay=_part("channel_gate", temperature=temperature), **kwargs)


@_preset
def performer(features: int = 256, **kwargs: Any) -> Linear:
    """FAVOR+, which estimates the softmax: Choromanski et al., ICLR 2021, arXiv 2009.14794."""
    return Linear(_part("favor", features=features), **kwargs)


@_preset
def random_feature_attention(features: int = 128, **kwargs: Any) -> Linear:
    """Random Fourier features: Peng et al., ICLR 2021, arXiv 2103.02143."""
    return Linear(_part("fourier", features=features), **kwargs)


@_preset
def taylor(**kwargs: Any) -> Linear:
    """`1 + cos(q, k)`, the start of the exponential's series: Su, spaces.ac.cn/archives/7546."""
    return Linear("taylor", **kwargs)


def fresh(identifier: Any) -> keras.layers.Layer:
    """Returns a new mechanism with new weights, also for an instance."""
    return deserialize(unshared(serialize(get(identifier))))


def _and(pattern: Pattern, other: Any) -> Pattern:
    return pattern if other is None else pattern & other


def _part(class_name: str, **config: Any) -> Config:
    """Returns the short form of a part, which gets the dtype policy of its owner."""
    return {"class_name": class_name, "config": config}
