"""Every layer of recsys_attn with arguments and inputs, for the shared checks."""

from __future__ import annotations

from typing import Any

from recsys_attn.attention import (
    Attention,
    AttentionPooling,
    Dense,
    Disagreement,
    MultiHeadAttention,
    PrependTokens,
    SegmentAttention,
    TwoStreamEncoder,
    scores,
    weightings,
)
from recsys_attn.attention.gates import HardConcrete, OutputGate
from recsys_attn.attention.positions import (
    AxialPositions,
    CoordinatePositions,
    LearnedPositions,
    SinusoidalPositions,
)
from recsys_attn.blocks import (
    AttentionalGru,
    ConditionalNorm,
    ControlTokens,
    ConvolutionMixer,
    Dice,
    FactorizedDense,
    FeedForward,
    Film,
    FourierMixer,
    GateUnit,
    GatingMixer,
    Mlp,
    RecurrentMixer,
    SegmentMemory,
    SqueezeExcitation,
    TokenMixer,
    TransformerBlock,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
)
from recsys_attn.multitask import Balance
from recsys_attn.serialization import serialize
from tests.support.interaction_cases import INTERACTION_CASES
from tests.support.layer_case import LayerCase

PER_HEAD = {"query": "BTNH", "key": "BSNH"}
TWO_SIZES = {"query": "BTNH", "key": "BSNV"}
EVEN = {"query": "BTNN", "key": "BSNN"}  # an even head size, for pairs of channels
VALUES = {**PER_HEAD, "value": "BSNV"}
ALLOWED = {"allowed": "BNTS"}
LOGITS = {
    "inputs": {"logits": "BNTS"},
    "masks": ALLOWED,
    "hides": {"allowed": "logits"},
    "zeros": ("allowed",),
}
LOGITS_AND_QUERY = {**LOGITS, "inputs": {"logits": "BNTS", "query": "BTNH"}}
ATTENTION_MASKS = {
    "query_mask": "BT",
    "value_mask": "BS",
    "key_mask": "BS",
    "attention_mask": "BTS",
}
GATED = {"heads": "BTNV", "inputs": "BTE"}
EVENTS = {
    "inputs": {"inputs": "BSE"},
    "masks": {"present": "BS"},
    "hides": {"present": "inputs"},
    "zeros": ("present",),
}
CONDITIONED = {"inputs": {"inputs": "BSE", "condition": "BH"}}
DECODED = {
    "inputs": {"inputs": "BTE", "context": "BSH"},
    "masks": {"present": "BT", "context_mask": "BS"},
    "hides": {"present": "inputs", "context_mask": "context"},
    "zeros": ("present",),
}
WITH_CONTEXT = {
    "inputs": {"inputs": "BSE", "context": "BVH"},
    "masks": {"present": "BS", "context_mask": "BV"},
    "hides": {"present": "inputs", "context_mask": "context"},
    "zeros": ("present",),
}
REMEMBERED = {
    "inputs": {"inputs": "BSE", "memory": "BTE"},
    "masks": {"present": "BS", "memory_mask": "BT"},
    "hides": {"present": "inputs", "memory_mask": "memory"},
    "zeros": ("present",),
}
PRESENT = {"masks": {"present": "BT"}, "hides": {"present": "inputs"}}


def heads(mechanism: Any = "transformer") -> Any:
    """The config of attention."""
    return serialize(MultiHeadAttention(2, 3, mechanism, name="heads"))


def block(**config: Any) -> dict[str, Any]:
    """The arguments of a TransformerBlock."""
    mechanism = {"class_name": "compressed", "config": {"compressor": "pool"}}
    return {"attention": heads(mechanism), "feed_forward_units": 6, **config}


def decoder_block(**config: Any) -> dict[str, Any]:
    """The arguments of a TransformerDecoderBlock."""
    causal = {"class_name": "dense", "config": {"pattern": "causal"}}
    parts = {
        "attention": MultiHeadAttention(2, 3, causal, name="own"),
        "cross_attention": MultiHeadAttention(2, 3, name="across"),
    }
    own = {name: serialize(part) for name, part in parts.items()}
    return {**own, "feed_forward_units": 6, **config}


def encoder(**config: Any) -> dict[str, Any]:
    """The arguments of a TransformerEncoder."""
    return {"blocks": [serialize(TransformerBlock(**block(**config), name=name)) for name in "ab"]}


def remembering(mechanism: str = "transformer_xl", **config: Any) -> dict[str, Any]:
    """The arguments of a SegmentMemory."""
    inner = TransformerEncoder(**encoder(attention=heads(mechanism)), name="encoder")
    return {"encoder": serialize(inner), "memory": 2, **config}


_SCORES = {
    "dot": LayerCase(scores.Dot, {}, PER_HEAD, ALLOWED),
    "scaled_dot": LayerCase(scores.Dot, {"scale": True}, PER_HEAD, ALLOWED),
    "general": LayerCase(scores.General, {}, {"query": "BTNH", "key": "BSNV"}, ALLOWED),
    "additive": LayerCase(scores.Additive, {"units": 4}, {"query": "BTNH", "key": "BSNV"}, ALLOWED),
    "cosine": LayerCase(scores.Cosine, {"temperature": 0.2}, PER_HEAD, ALLOWED),
    "mlp_score": LayerCase(scores.Mlp, {"units": (4, 3)}, PER_HEAD, ALLOWED),
    "dot_with_bias": LayerCase(scores.Dot, {"scale": True, "query_bias": True}, PER_HEAD, ALLOWED),
    "key_only": LayerCase(scores.KeyOnly, {"units": 4, "activation": "tanh"}, TWO_SIZES, ALLOWED),
    "location": LayerCase(scores.Location, {"length": 9}, TWO_SIZES, ALLOWED),
    "dense_synthesizer": LayerCase(
        scores.DenseSynthesizer, {"length": 9, "units": 4}, TWO_SIZES, ALLOWED
    ),
    "random_synthesizer": LayerCase(scores.RandomSynthesizer, {"length": 9}, TWO_SIZES, ALLOWED),
    "fixed_synthesizer": LayerCase(
        scores.RandomSynthesizer, {"length": 9, "trainable": False}, TWO_SIZES, ALLOWED
    ),
    "factorised_dense_synthesizer": LayerCase(
        scores.FactorisedDenseSynthesizer, {"length": 12, "factor": 4}, TWO_SIZES, ALLOWED
    ),
    "factorised_random_synthesizer": LayerCase(
        scores.FactorisedRandomSynthesizer, {"length": 9, "rank": 2}, TWO_SIZES, ALLOWED
    ),
    "mixture": LayerCase(
        scores.Mixture,
        {"scores": ["scaled_dot", {"class_name": "location", "config": {"length": 9}}]},
        PER_HEAD,
        ALLOWED,
    ),
    "sum": LayerCase(scores.Sum, {"scores": ["dot", "alibi", "key_only"]}, PER_HEAD, ALLOWED),
    "relative_dot": LayerCase(
        scores.RelativeDot, {"max_distance": 4, "scale": True, "units": 6}, TWO_SIZES, ALLOWED
    ),
    "relative_buckets": LayerCase(
        scores.RelativeBuckets, {"num_buckets": 8, "max_distance": 5}, TWO_SIZES, ALLOWED
    ),
    "time_buckets": LayerCase(
        scores.TimeBuckets, {"num_buckets": 5, "step": 0.5}, TWO_SIZES, ALLOWED
    ),
    "time_intervals": LayerCase(
        scores.TimeIntervals, {"max_interval": 4, "scale": True}, TWO_SIZES, ALLOWED
    ),
    "alibi": LayerCase(scores.Alibi, {}, TWO_SIZES, ALLOWED),
    "rotary": LayerCase(scores.Rotary, {"score": "general"}, EVEN, ALLOWED),
    "qk_norm": LayerCase(scores.QkNorm, {"score": "general"}, TWO_SIZES, ALLOWED),
    "qk_norm_of_keys": LayerCase(
        scores.QkNorm, {"score": "key_only", "norm": "layer"}, TWO_SIZES, ALLOWED
    ),
    "soft_cap": LayerCase(scores.SoftCap, {"score": "alibi", "cap": 3.0}, TWO_SIZES, ALLOWED),
    "temperature": LayerCase(
        scores.Temperature, {"score": "cosine", "initial": 0.1}, PER_HEAD, ALLOWED
    ),
    "shared_dot": LayerCase(scores.SharedDot, {"self_penalty": -3.0}, PER_HEAD, ALLOWED),
}
_WEIGHTINGS = {
    "softmax": LayerCase(weightings.Softmax, **LOGITS),
    "identity": LayerCase(weightings.Identity, **LOGITS),
    "sigmoid": LayerCase(weightings.Sigmoid, {"bias": -1.0}, **LOGITS),
    "silu": LayerCase(weightings.Silu, {}, **LOGITS),
    "silu_over_a_length": LayerCase(weightings.Silu, {"length": 50}, **LOGITS),
    "entmax": LayerCase(weightings.Entmax, {}, **LOGITS),
    "sparsemax": LayerCase(weightings.Entmax, {"alpha": 2.0}, **LOGITS),
    "top_k": LayerCase(weightings.TopK, {"k": 3}, **LOGITS),
    "attention_sink": LayerCase(weightings.AttentionSink, {}, **LOGITS),
    "talking_heads": LayerCase(weightings.TalkingHeads, {"weighting": "softmax"}, **LOGITS),
    "gaussian": LayerCase(weightings.Gaussian, {"width": 3, "units": 4}, **LOGITS_AND_QUERY),
    "talking_gaussian": LayerCase(
        weightings.TalkingHeads, {"weighting": "gaussian"}, **LOGITS_AND_QUERY
    ),
}
_ATTENTION = {
    "dense": LayerCase(
        Dense,
        {"score": "additive"},
        VALUES,
        {"query_mask": "BT", "key_mask": "BS", "attention_mask": "BNTS"},
        {"key_mask": ("key", "value"), "query_mask": "query"},
        ("query_mask", "key_mask", "attention_mask"),
    ),
    "attention": LayerCase(
        Attention,
        {"mechanism": {"class_name": "dense", "config": {"score": "general"}}},
        {"query": "BTE", "value": "BSV", "key": "BSH"},
        ATTENTION_MASKS,
        {"key_mask": ("key", "value"), "query_mask": "query"},
        tuple(ATTENTION_MASKS),
    ),
    "two_streams": LayerCase(
        TwoStreamEncoder,
        {"encoder": remembering(mechanism="xlnet")["encoder"]},
        {"inputs": "BSE"},
        {"present": "BS", "ranks": "BS"},
        {"present": "inputs"},
        ("present",),
    ),
    "segment_attention": LayerCase(
        SegmentAttention,
        {"attention": heads("xlnet")},
        {"query": "BSE"},
        {"query_mask": "BS", "query_segments": "BS"},
        {"query_mask": "query"},
    ),
    "attention_to_a_context": LayerCase(
        MultiHeadAttention,
        {"num_heads": [2, 1], "head_dim": [4, 3], "mechanism": "rotary"},
        {"query": "BSE", "context": "BVH"},
        {"query_mask": "BS", "context_mask": "BV"},
        {"query_mask": "query", "context_mask": "context"},
        ("query_mask",),
    ),
    "attention_pooling": LayerCase(
        AttentionPooling,
        {"mechanism": "han"},
        masks={"present": "BT"},
        hides={"present": "inputs"},
        zeros=("present",),
    ),
    "latent_queries": LayerCase(
        AttentionPooling,
        {"mechanism": "transformer", "num_queries": 2, "num_heads": 2, "head_dim": 3},
        masks={"present": "BT"},
        hides={"present": "inputs"},
        zeros=("present",),
    ),
    "prepend_tokens": LayerCase(
        PrependTokens,
        {"count": 2, "attention": heads()},
        masks={"present": "BT"},
        hides={"present": "inputs"},
    ),
    "hard_concrete": LayerCase(HardConcrete, {"penalty": 0.1, "seed": 3}, GATED),
    "output_gate": LayerCase(OutputGate, {}, GATED),
    "output_gate_per_head": LayerCase(
        OutputGate, {"activation": "silu", "per_channel": False, "normalise": True}, GATED
    ),
    "disagreement": LayerCase(
        Disagreement,
        {"subspace": 1.0, "positions": 0.5, "outputs": 0.1},
        {"value": "BSNV", "weights": "BNTS", "output": "BTNV"},
        {"query_mask": "BT", "key_mask": "BS"},
    ),
    "balance": LayerCase(Balance, {"factor": 0.1}, {"gates": "BTNE"}, {"where": "BT"}),
}
_BLOCKS = {
    "feed_forward": LayerCase(
        FeedForward, {"units": 6, "activation": "dice"}, masks={"where": "BT"}
    ),
    "transformer_block": LayerCase(TransformerBlock, block(), **EVENTS),
    "post_norm_block": LayerCase(
        TransformerBlock, block(placement="post", activation="dice"), **EVENTS
    ),
    "gated_feed_forward": LayerCase(FeedForward, {"units": 6, "activation": "swiglu"}),
    "chunked_block": LayerCase(TransformerBlock, block(feed_forward_chunks=4), **EVENTS),
    "gated_block": LayerCase(
        TransformerBlock,
        block(norm="rms", placement="sandwich", residual="gru", activation="geglu"),
        **EVENTS,
    ),
    "block_with_memory": LayerCase(TransformerBlock, block(attention=heads()), **REMEMBERED),
    "conditional_block": LayerCase(
        TransformerBlock, block(norm="conditional"), **{**EVENTS, **CONDITIONED}
    ),
    "control_tokens": LayerCase(
        ControlTokens, {"encoder": serialize(TransformerEncoder(**encoder()))}, **WITH_CONTEXT
    ),
    "gate_unit": LayerCase(GateUnit, {"units": 3}, {"inputs": "BTE", "condition": "BTH"}),
    "film": LayerCase(Film, {}, **CONDITIONED),
    "conditional_norm": LayerCase(ConditionalNorm, {}, **CONDITIONED),
    "decoder_block": LayerCase(TransformerDecoderBlock, decoder_block(), **DECODED),
    "decoder": LayerCase(
        TransformerDecoder,
        {"blocks": [serialize(TransformerDecoderBlock(**decoder_block(), name=n)) for n in "ab"]},
        **DECODED,
    ),
    "squeeze_fields": LayerCase(
        SqueezeExcitation,
        {"activation": "sigmoid"},
        {"inputs": "BTFE"},
        {"present": "BTF"},
        {"present": "inputs"},
        ("present",),
    ),
    "squeeze_channels": LayerCase(SqueezeExcitation, {"over": "channels"}, **EVENTS),
    "token_mixer": LayerCase(TokenMixer, {"length": 9, "units": 6}, **EVENTS),
    "fourier_mixer": LayerCase(FourierMixer, {"length": 9}, **EVENTS),
    "gating_mixer": LayerCase(
        GatingMixer, {"length": 9, "units": 6, "attention_size": 4}, **EVENTS
    ),
    "attentional_gru": LayerCase(
        AttentionalGru,
        {"units": 4},
        {"inputs": "BSE", "weights": "BTS"},
        {"present": "BS"},
        {"present": "inputs"},
        ("present",),
    ),
    "gru": LayerCase(RecurrentMixer, {"bidirectional": True, "units": 4}, **EVENTS),
    "lstm": LayerCase(RecurrentMixer, {"cell": "lstm"}, **EVENTS),
    "convolution": LayerCase(ConvolutionMixer, {"causal": True}, **EVENTS),
    "encoder_with_a_context": LayerCase(
        TransformerEncoder,
        encoder(attention=heads("linear_transformer"), residual="reversible"),
        **WITH_CONTEXT,
    ),
    "transformer_encoder": LayerCase(TransformerEncoder, encoder(), **EVENTS),
    "segment_memory": LayerCase(SegmentMemory, remembering(segment=3), **EVENTS),
    "sinusoidal_positions": LayerCase(SinusoidalPositions, {"interleaved": False, "scale": 0.5}),
    "axial_positions": LayerCase(AxialPositions, {"shape": (2, 3)}, masks={"present": "BT"}),
    "coordinate_positions": LayerCase(
        CoordinatePositions, {"length": 5, "from_end": False}, masks={"present": "BT"}
    ),
    "shared_encoder": LayerCase(
        TransformerEncoder, {**encoder(placement="post", residual="deepnorm"), "depth": 4}, **EVENTS
    ),
    "reversible_encoder": LayerCase(
        TransformerEncoder, {**encoder(residual="reversible"), "depth": 4}, **EVENTS
    ),
    "learned_positions": LayerCase(LearnedPositions, {"length": 4}, masks={"present": "BT"}),
    "dice": LayerCase(Dice, {}, masks={"where": "BT"}),
    "mlp": LayerCase(Mlp, {"units": (5, 3), "activation": "dice"}, masks={"where": "BT"}),
    "factorized_dense": LayerCase(FactorizedDense, {"units": 4}),
    "batch_norm_mlp": LayerCase(Mlp, {"units": (5, 3), "norm": "batch"}, masks={"where": "BT"}),
}
LAYER_CASES: dict[str, LayerCase] = {
    **_SCORES,
    **_WEIGHTINGS,
    **_ATTENTION,
    **_BLOCKS,
    **INTERACTION_CASES,
}
