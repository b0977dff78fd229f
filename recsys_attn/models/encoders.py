"""Encoders of events by name: a mechanism, a mixer, or a block with all its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from recsys_attn.attention import presets, relative_positions
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.attention.mechanisms.base import MECHANISMS
from recsys_attn.blocks.attended import is_mixer
from recsys_attn.blocks.encoder import TransformerEncoder
from recsys_attn.blocks.gating_mixer import GatingMixer
from recsys_attn.blocks.mixers import MIXERS, PositionMixer
from recsys_attn.blocks.position_mixers import FourierMixer, TokenMixer
from recsys_attn.blocks.sequence_mixers import ConvolutionMixer, RecurrentMixer
from recsys_attn.blocks.transformer import TransformerBlock
from recsys_attn.checks import require_positive, unknown_name
from recsys_attn.registry import Registry
from recsys_attn.serialization import deserialize, nameless, serialize

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
    **options: Any,
) -> TransformerBlock:
    if groups is not None:
        require_positive("groups", groups)
    block = TransformerBlock(_part(attention, num_heads, head_dim), **options)
    block.start_smaller("attention", block.attention)  # an error before any data are read
    if block.sublayers[0].is_conditional:
        raise ValueError(
            "`norm` must be one without a condition, which a model does not give to its encoder; "
            f"build the encoder in Python. Received: norm={options.get('norm')!r}"
        )
    return block


_BLOCKS = Registry("an encoder", "encoders", members={"block": _block})


def get(identifier: Any, num_heads: Any = 2, head_dim: Any = 16) -> TransformerBlock:
    """Returns a new block for the option `encoder` of a model.

    Args:
        identifier: A mechanism or a preset, in a pre-norm block with a feed-forward network; a
            mixer (`"gru"`, `"lstm"`, `"convolution"`, `"gmlp"`, `"mlp_mixer"`, `"fnet"`,
            `"squeeze_excitation"` over channels), in the block of its paper; or
            `{"class_name": "block", "config": {"attention": ..., ...}}` with the arguments of
            `TransformerBlock`, and `groups`, the number of different blocks.
        num_heads, head_dim: Of attention; a pair for grouped queries, or for values of another
            size (`MultiHeadAttention`).

    Raises:
        ValueError: The name or an argument is unknown.
    """
    if _is_block(identifier):
        return _BLOCKS.get(
            {"class_name": "block", **({} if isinstance(identifier, str) else identifier)},
            num_heads=num_heads,
            head_dim=head_dim,
        )
    part = _part(identifier, num_heads, head_dim)
    return TransformerBlock(part, **_AROUND.get(type(part), {}))


def stack(identifier: Any, layers: int, num_heads: Any, head_dim: Any) -> TransformerEncoder:
    """Returns an encoder of several such blocks, or of `groups` blocks that share their weights."""
    groups = _options(identifier).get("groups") if _is_block(identifier) else None
    count = layers if groups is None else groups
    first = get(identifier, num_heads, head_dim)  # checks the number of groups too
    others = [get(identifier, num_heads, head_dim) for _ in range(count - 1)]
    return TransformerEncoder([first, *others], depth=layers)


def mechanism_of(identifier: Any) -> Any:
    """Returns the mechanism of an encoder's attention, as it was given; None for a mixer."""
    if _is_block(identifier):
        return mechanism_of(_options(identifier).get("attention", "transformer"))
    return None if is_mixer(_part(identifier, 1, 1)) else identifier


def with_mechanism(identifier: Any, mechanism: Any) -> Any:
    """Returns an encoder with attention, with another mechanism."""
    if not _is_block(identifier):
        return mechanism
    return {"class_name": "block", "config": {**_options(identifier), "attention": mechanism}}


def encodes_order(identifier: Any) -> bool:
    """Returns whether the order of the events matters to an encoder without positions."""
    mechanism = mechanism_of(identifier)
    if mechanism is not None:
        return relative_positions.encodes_order(mechanism)
    mixer = _options(identifier)["attention"] if _is_block(identifier) else identifier
    return getattr(_part(mixer, 1, 1), "encodes_order", False)


def _is_block(identifier: Any) -> bool:
    name = identifier.get("class_name") if isinstance(identifier, Mapping) else identifier
    return bool(name == "block")


def _options(block: Any) -> Mapping[str, Any]:
    return {} if isinstance(block, str) else block.get("config") or {}


def _part(identifier: Any, num_heads: Any, head_dim: Any) -> keras.layers.Layer:
    """Returns a new mixer, or new attention with a mechanism."""
    part = deserialize(identifier) if _is_config(identifier) else identifier
    if isinstance(part, keras.layers.Layer) and is_mixer(part):
        return deserialize(nameless(serialize(part)))
    name = part.get("class_name") if isinstance(part, Mapping) else part
    if isinstance(name, str):
        known = {*presets.PRESETS, *MECHANISMS.members, *MIXERS.members}
        if name not in known:
            raise ValueError(
                "Expected a mechanism, a preset, a mixer or 'block'. "
                + unknown_name(name, {*known, "block"})
            )
        if name in MIXERS.members:
            return _with_length(name, MIXERS.get(part))
    return MultiHeadAttention(num_heads, head_dim, presets.fresh(part))


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
