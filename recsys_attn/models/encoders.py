"""Encoders of events by name: a mechanism, a mixer, a block with its options, segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from recsys_attn.attention import presets
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.attention.mechanisms.base import MECHANISMS
from recsys_attn.attention.positions import in_score
from recsys_attn.blocks.attended import is_mixer
from recsys_attn.blocks.encoder import TransformerEncoder
from recsys_attn.blocks.gating_mixer import GatingMixer
from recsys_attn.blocks.mixers import MIXERS, PositionMixer
from recsys_attn.blocks.position_mixers import FourierMixer, TokenMixer
from recsys_attn.blocks.reversible import are_reversible
from recsys_attn.blocks.segment_memory import SegmentMemory
from recsys_attn.blocks.sequence_mixers import ConvolutionMixer, RecurrentMixer
from recsys_attn.blocks.transformer import TransformerBlock
from recsys_attn.checks import require_positive, unknown_name
from recsys_attn.registry import Registry
from recsys_attn.serialization import deserialize, nameless, serialize, with_own_seed

# The block around each mixer: that of its paper, and no feed-forward network for baselines.
_AROUND: Mapping[type, dict[str, Any]] = {
    TokenMixer: {"activation": "gelu"},
    FourierMixer: {"activation": "gelu", "placement": "post"},
    GatingMixer: {"feed_forward_units": 0},
    RecurrentMixer: {"feed_forward_units": 0},
    ConvolutionMixer: {"feed_forward_units": 0},
}


def _block(
    attention: Any = "transformer",
    num_heads: Any = 2,
    head_dim: Any = 16,
    groups: int | None = None,
    gate: Any = None,
    disagreement: Any = None,
    **options: Any,
) -> TransformerBlock:
    if groups is not None:
        require_positive("groups", groups)
    of_heads = {"gate": gate, "disagreement": disagreement}
    block = TransformerBlock(_part(attention, num_heads, head_dim, **of_heads), **options)
    block.start_smaller("attention", block.attention)  # errors before any data are read
    are_reversible([block])
    return block


def _segments(
    segment: int,
    memory: int,
    encoder: Any = "transformer_xl",
    layers: int = 1,
    num_heads: Any = 2,
    head_dim: Any = 16,
    gate: Any = None,
    disagreement: Any = None,
) -> SegmentMemory:
    blocks = stack(encoder, layers, num_heads, head_dim, gate=gate, disagreement=disagreement)
    return SegmentMemory(blocks, memory, segment)


_KINDS = Registry("an encoder", "encoders", members={"block": _block, "segments": _segments})


def get(
    identifier: Any,
    num_heads: Any = 2,
    head_dim: Any = 16,
    conditional: bool | None = None,
    **of_heads: Any,
) -> keras.layers.Layer:
    """Returns a new block for the option `encoder` of a model.

    Args:
        identifier: A mechanism or a preset, in a pre-norm block with a feed-forward network; a
            mixer (`"gru"`, `"lstm"`, `"convolution"`, `"gmlp"`, `"mlp_mixer"`, `"fnet"`,
            `"squeeze_excitation"` over channels), in the block of its paper; or
            `{"class_name": "block", "config": {"attention": ..., ...}}` with the arguments of
            `TransformerBlock`, and `groups`, the number of different blocks; or
            `{"class_name": "segments", "config": {"encoder": ..., "segment": 64, "memory": 64}}`,
            one of these over segments of the history with a memory (`SegmentMemory`).
        num_heads, head_dim: Of attention; a pair for grouped queries, or for values of another
            size (`MultiHeadAttention`).
        conditional: Whether the norms of the block have a condition. None where that is not known
            yet: those that the block says.
        of_heads: The gate and the disagreement of its heads; None for none.

    Raises:
        ValueError: The name or an argument is unknown, or a mixer, which has no heads, gets a gate
            or a disagreement; or the norms have no condition or, the other way round, need one.
    """
    norm = {"norm": "conditional"} if conditional else {}
    kind = _kind(identifier)
    if kind is not None:
        defaults = norm if kind == "block" else {}
        table = {"class_name": kind, "config": {**defaults, **_options(identifier)}}
        block = _KINDS.get(table, num_heads=num_heads, head_dim=head_dim, **of_heads)
    else:
        part = _part(identifier, num_heads, head_dim, **of_heads)
        block = TransformerBlock(part, **{**_AROUND.get(type(part), {}), **norm})
    if conditional is not None and isinstance(block, TransformerBlock):
        _require_condition(block, conditional)
    return block


def _require_condition(block: TransformerBlock, conditional: bool) -> None:
    around = block.sublayers[0]
    if around.is_conditional and not conditional:
        raise ValueError(
            f"The norm {around.norm!r} needs a condition: set `encoder.context` to "
            '{ features = [...], how = "norm" }, or choose another `norm`. '
            f"Received: norm={around.norm!r}, no such `encoder.context`"
        )
    if conditional and not around.is_conditional:
        raise ValueError(
            '`encoder.context` with how = "norm" needs norm = "conditional" in the blocks of the '
            f'encoder: leave their `norm` out, or use how = "film". Received: norm={around.norm!r}'
        )


def stack(
    identifier: Any,
    layers: int,
    num_heads: Any,
    head_dim: Any,
    gate: Any = None,
    conditional: bool = False,
    **of_heads: Any,
) -> TransformerEncoder | SegmentMemory:
    """Returns an encoder of several such blocks, or of `groups` blocks that share their weights.

    Each block has its own gate and its own seed.
    """
    if _kind(identifier) == "segments":
        options = {**_options(identifier), "layers": layers, "gate": gate, **of_heads}
        return get({"class_name": "segments", "config": options}, num_heads, head_dim)
    groups = _options(identifier).get("groups")
    count = layers if groups is None else groups

    def block(index: int) -> TransformerBlock:
        of_block = {**of_heads, "gate": with_own_seed(gate, index)}
        return get(identifier, num_heads, head_dim, conditional, **of_block)

    first = block(0)  # checks the number of groups too
    return TransformerEncoder([first, *map(block, range(1, count))], depth=layers)


def has_segments(identifier: Any) -> bool:
    """Returns whether an encoder runs over segments with a memory."""
    return _kind(identifier) == "segments"


def mechanism_of(identifier: Any) -> Any:
    """Returns the mechanism of an encoder's attention, as it was given; None for a mixer."""
    if _kind(identifier) is not None:
        return mechanism_of(_inner(identifier)[1])
    return None if is_mixer(_part(identifier, 1, 1)) else identifier


def with_mechanism(identifier: Any, mechanism: Any) -> Any:
    """Returns an encoder with attention, with another mechanism."""
    kind = _kind(identifier)
    if kind is None:
        return mechanism
    name, inner = _inner(identifier)
    options = {**_options(identifier), name: with_mechanism(inner, mechanism)}
    return {"class_name": kind, "config": options}


def encodes_order(identifier: Any) -> bool:
    """Returns whether the order of the events matters to an encoder without positions."""
    mechanism = mechanism_of(identifier)
    if mechanism is not None:
        return in_score.encodes_order(mechanism)
    while _kind(identifier) is not None:
        identifier = _inner(identifier)[1]
    return getattr(_part(identifier, 1, 1), "encodes_order", False)


def is_causal(encoder: Any) -> bool:
    """Returns whether no output of an encoder depends on later events, statistics of a batch aside.

    Args:
        encoder: A `TransformerEncoder` or a `SegmentMemory`.
    """
    parts = [block.attention for block in encoder.blocks]
    return all(part.is_causal if is_mixer(part) else part.mechanism.is_causal for part in parts)


def _kind(identifier: Any) -> str | None:
    """Returns "block" or "segments"; None for attention or a mixer."""
    name = identifier.get("class_name") if isinstance(identifier, Mapping) else identifier
    return name if isinstance(name, str) and name in _KINDS.members else None


def _options(identifier: Any) -> Mapping[str, Any]:
    if _kind(identifier) is None or isinstance(identifier, str):
        return {}
    return identifier.get("config") or {}


def _inner(identifier: Any) -> tuple[str, Any]:
    """Returns the argument of a block or of segments that has the attention, and its value."""
    options = _options(identifier)
    if _kind(identifier) == "block":
        return "attention", options.get("attention", "transformer")
    return "encoder", options.get("encoder", "transformer_xl")


def _part(identifier: Any, num_heads: Any, head_dim: Any, **of_heads: Any) -> keras.layers.Layer:
    """Returns a new mixer, or new attention with a mechanism."""
    part = deserialize(identifier) if _is_config(identifier) else identifier
    if isinstance(part, keras.layers.Layer) and is_mixer(part):
        _require_no_heads(type(part).__name__, of_heads)
        return deserialize(nameless(serialize(part)))
    name = part.get("class_name") if isinstance(part, Mapping) else part
    if isinstance(name, str):
        known = {*presets.PRESETS, *MECHANISMS.members, *MIXERS.members}
        if name not in known:
            raise ValueError(
                "Expected a mechanism, a preset, a mixer, 'block' or 'segments'. "
                + unknown_name(name, {*known, *_KINDS.members})
            )
        if name in MIXERS.members:
            _require_no_heads(name, of_heads)
            return _with_length(name, MIXERS.get(part))
    return MultiHeadAttention(num_heads, head_dim, presets.fresh(part), **of_heads)


def _require_no_heads(name: str, of_heads: Mapping[str, Any]) -> None:
    for key, value in of_heads.items():
        if value is not None:
            raise ValueError(
                f"The encoder {name!r} has no heads, so `{key}` has no meaning there. "
                f"Received: {key}={value!r}"
            )


def _with_length(name: str, mixer: Any) -> keras.layers.Layer:
    """Returns a mixer; raises if it must know the longest history, which no model knows."""
    if isinstance(mixer, PositionMixer) and mixer.length is None:
        raise ValueError(
            f"{name!r} needs `length`, the most events of a history: "
            f"{{ class_name = {name!r}, config = {{ length = 50 }} }}. Received: length=None"
        )
    return mixer


def _is_config(identifier: Any) -> bool:
    return isinstance(identifier, Mapping) and "registered_name" in identifier
