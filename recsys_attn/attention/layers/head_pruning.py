"""Pruning of attention heads, and of the experts that attention mixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops

from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.attention.mechanisms.disentangled import Disentangled
from recsys_attn.attention.mechanisms.linear import Linear
from recsys_attn.attention.positions.in_score import encodes_order
from recsys_attn.attention.weightings.talking_heads import TalkingHeads
from recsys_attn.layer import layers_in
from recsys_attn.serialization import deserialize, replaced, serialize
from recsys_attn.tensors import Shape

L = TypeVar("L", bound=keras.layers.Layer)


def prune_heads(layer: L, keep: Sequence[int] | Mapping[Any, Sequence[int]] | None = None) -> L:
    """Returns a smaller copy of a trained layer or model with some of its heads or experts.

    Every weight with a part per head is sliced, for any mechanism. If the gates of the removed
    heads were closed, the output stays the same; the other gates are kept. If all gates of a layer
    are closed, one head stays, with its gate closed. The experts of an `MMoE` with gates are
    removed in the same way.

    Source: Voita et al., "Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy
    Lifting, the Rest Can Be Pruned", ACL 2019, arXiv 1905.09418.

    Args:
        layer: A built `MultiHeadAttention`, `InteractingLayer` or `MMoE`, or a layer or model that
            holds some, such as a `TransformerBlock`, an `AutoInt` or a `RankingModel`.
        keep: The heads or experts to keep of a single layer, or a table of them by layer; the
            others stay as they are. Defaults to the heads with an open gate, in every layer with
            the gate `HardConcrete`.

    Returns:
        A new layer or model, built for the same inputs; it is saved and exported like any other.

    Raises:
        TypeError: There is no layer of attention with heads in it.
        ValueError: The layer is not built, no layer has gates, `keep` names unknown heads or is
            given for several layers, a layer occurs several times, or the remaining heads depend
            on the removed ones (`TalkingHeads`).

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import MultiHeadAttention, prune_heads
    >>> layer, events = MultiHeadAttention(4, 8), keras.random.normal((2, 5, 16))
    >>> tuple(layer(events).shape), prune_heads(layer, keep=[0, 2]).num_heads
    ((2, 5, 16), 2)
    """
    if not layer.built:
        raise ValueError("`layer` must be built before heads can be cut out of it. Call it once")
    heads_of = _heads_to_keep(layer, keep)
    with replaced(_smaller_parts(layer, heads_of)):
        config = serialize(layer)
    smaller: L = deserialize(config)
    for old, new in zip(layers_in(layer), layers_in(smaller), strict=True):
        if old.built and not new.built:
            _build_like(old, new)
    if len(layer.weights) != len(smaller.weights):
        raise ValueError(
            "A layer that stands in several places cannot be pruned: each place would get a copy. "
            f"Received: {layer!r}"
        )
    owners = {
        id(w): (attention, heads)
        for attention, heads in heads_of.items()
        for w in attention.weights
    }
    for old, new in zip(layer.weights, smaller.weights, strict=True):
        value = ops.convert_to_numpy(old)
        if id(old) in owners:
            attention, heads = owners[id(old)]
            value = attention.slice_heads(old, value, tuple(new.shape), heads)
        new.assign(value)
    return smaller


def gate_of(layer: Any) -> Any:
    """Returns the gates of a layer's heads or experts that can be closed; None for none."""
    gate = (layer.heads if hasattr(layer, "heads") else layer.experts).gate
    return gate if hasattr(gate, "open_heads") else None


def kept_units(gate: Any) -> list[int]:
    """Returns the open heads, experts or fields of a gate; the first if all are closed."""
    return [int(unit) for unit in gate.open_heads()] or [0]


def require_order_free(name: str, mechanism: Any) -> None:
    """Raises unless removing keys that are masked leaves the result of a mechanism the same."""
    if (
        not isinstance(mechanism, Dense | Disentangled | Linear)
        or encodes_order(mechanism)
        or getattr(mechanism, "pattern", None) is not None
    ):
        raise ValueError(
            f"{name} depends on the places of its keys, so that none of them can be removed: use "
            "Dense or Linear without positions and pattern, or no gates there. "
            f"Received: {mechanism!r}"
        )


def take_heads(mechanism: Any, keep: Sequence[int]) -> None:
    """Keeps some of the heads in the parts of a mechanism."""
    mechanism.take_heads(keep)


def slice_heads(value: np.ndarray, shape: Shape, num_heads: int, keep: Sequence[int]) -> np.ndarray:
    """Slices every axis with a size that depends on the number of heads."""
    for axis, size in enumerate(shape):
        if value.shape[axis] == size:
            continue
        per_head = value.shape[axis] // num_heads
        columns = np.arange(value.shape[axis]).reshape(num_heads, per_head)[list(keep)]
        value = np.take(value, columns.ravel(), axis=axis)
    return value


def _heads_to_keep(
    layer: keras.layers.Layer, keep: Sequence[int] | Mapping[Any, Sequence[int]] | None
) -> dict[Any, list[int]]:
    """Returns the heads to keep of each layer of attention to prune."""
    layers = {
        id(attention): attention
        for attention in layers_in(layer)
        if hasattr(attention, "without_heads")
    }
    if not layers:
        raise TypeError(
            "`layer` must be a MultiHeadAttention or an InteractingLayer, or hold some. "
            f"Received: {layer!r} of type {type(layer).__name__}"
        )
    if keep is None:
        gated = [attention for attention in layers.values() if gate_of(attention) is not None]
        if not gated:
            raise ValueError(
                "`keep` must name the heads to keep, since no layer has the gate HardConcrete. "
                "Received: keep=None"
            )
        return {
            attention: _checked(attention, kept_units(gate_of(attention))) for attention in gated
        }
    if not isinstance(keep, Mapping):
        if len(layers) > 1:
            raise ValueError(
                "`keep` as a list names the heads of one layer; prune several by their gates, with "
                "keep=None, or with a table by layer. "
                f"Received: keep={list(keep)}, for {len(layers)} layers of attention"
            )
        keep = dict.fromkeys(layers.values(), keep)
    unknown = [attention for attention in keep if id(attention) not in layers]
    if unknown or not keep:
        raise ValueError(
            "`keep` must have layers of attention in `layer`: "
            f"{[attention.name for attention in layers.values()]}. Received: {unknown or keep}"
        )
    return {attention: _checked(attention, heads) for attention, heads in keep.items()}


def _checked(layer: Any, keep: Sequence[int]) -> list[int]:
    remaining, count = sorted(set(keep)), layer.computed_heads
    if not remaining or any(head not in range(count) for head in remaining):
        raise ValueError(
            f"`keep` must name at least one of the heads 0 ... {count - 1}. "
            f"Received: keep={list(keep)}"
        )
    gone = [head for head in range(count) if head not in remaining]
    heads = getattr(layer, "heads", None)  # experts have none
    weighting = getattr(getattr(heads, "mechanism", None), "weighting", None)
    while weighting is not None:
        if isinstance(weighting, TalkingHeads) and any(
            ops.convert_to_numpy(kernel)[np.ix_(gone, remaining)].any()
            for kernel in (weighting.logits_kernel, weighting.weights_kernel)
        ):
            raise ValueError(
                f"The heads of {layer.name!r} mix their scores and weights (TalkingHeads), so "
                "the removal of some would change the outputs of the others. "
                f"Received: heads {remaining} mix in those of {gone}"
            )
        weighting = getattr(weighting, "weighting", None)
    return remaining


def _smaller_parts(
    layer: keras.layers.Layer, heads_of: Mapping[Any, Sequence[int]]
) -> dict[Any, Any]:
    """Returns the smaller layers by those that they replace."""
    parts = {part: part.without_heads(heads) for part, heads in heads_of.items()}
    for part in layers_in(layer):
        if hasattr(part, "with_layers_without_heads"):  # its config has no layers
            parts[part] = part.with_layers_without_heads(heads_of)
    return parts


def _build_like(old: Any, new: Any) -> None:
    """Builds a layer for the inputs of another one."""
    if hasattr(old, "build_shapes"):
        new.build(*old.build_shapes)
    else:
        new.build_from_config(old.get_build_config() or {})
