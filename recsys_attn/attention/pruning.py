"""Heads that a trained layer can do without, cut out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from recsys_attn.attention.multi_head import MultiHeadAttention
from recsys_attn.attention.patterns.base import Pattern


def prune_heads(layer: MultiHeadAttention, keep: Sequence[int] | None = None) -> MultiHeadAttention:
    """A smaller layer with some of the heads of a trained one, and the same output.

    Every weight that has a share for each head is sliced, whatever the mechanism. Where the heads
    left out were closed by their gates, the output is the same; the open gates stay.

    Source: Voita et al., "Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy
    Lifting, the Rest Can Be Pruned", ACL 2019, arXiv 1905.09418.

    Args:
        layer: A built `MultiHeadAttention`.
        keep: The heads to keep; those whose gates are open where None, which needs the gate
            `HardConcrete`.

    Returns:
        A new layer, built for the same inputs.

    Raises:
        ValueError: The layer is not built, no head is kept, or `keep` names heads it has not.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import MultiHeadAttention, prune_heads
    >>> layer, events = MultiHeadAttention(4, 8), keras.random.normal((2, 5, 16))
    >>> tuple(layer(events).shape), prune_heads(layer, keep=[0, 2]).num_heads
    ((2, 5, 16), 2)
    """
    if not isinstance(layer, MultiHeadAttention):
        raise TypeError(
            "`layer` must be a MultiHeadAttention, whose output keeps its width when heads go. "
            f"Received: {type(layer).__name__}"
        )
    if not layer.built:
        raise ValueError("`layer` must be built before heads can be cut out of it. Call it once")
    kept = _kept(layer, keep)
    config = layer.get_config()
    smaller = MultiHeadAttention.from_config({**config, "num_heads": len(kept)})
    _take_patterns(smaller.mechanism, kept)
    smaller.build(*layer.build_shapes)
    for old, new in zip(layer.weights, smaller.weights, strict=True):
        new.assign(_slice(ops.convert_to_numpy(old), new.shape, layer.num_heads, kept))
    return smaller


def _kept(layer: MultiHeadAttention, keep: Sequence[int] | None) -> list[int]:
    if keep is None:
        gate: Any = layer.heads.gate
        if not hasattr(gate, "open_heads"):
            raise ValueError(
                "`keep` must name the heads to keep where the layer has no gate HardConcrete, "
                "which tells them. Received: keep=None"
            )
        keep = [int(head) for head in gate.open_heads()]
    kept = sorted(set(keep))
    heads = range(layer.num_heads)
    if not kept or any(head not in heads for head in kept):
        raise ValueError(
            f"`keep` must name at least one of the heads 0 ... {layer.num_heads - 1}. "
            f"Received: keep={list(keep)}"
        )
    return kept


def _take_patterns(mechanism: Any, kept: list[int]) -> None:
    pattern = getattr(mechanism, "pattern", None)
    if isinstance(pattern, Pattern):
        mechanism.pattern = pattern.take_heads(kept)


def _slice(old: np.ndarray, shape: Any, num_heads: int, kept: list[int]) -> np.ndarray:
    """Takes the heads along every axis whose size follows from their number."""
    for axis, size in enumerate(shape):
        if old.shape[axis] == size:
            continue
        per_head = old.shape[axis] // num_heads
        columns = np.arange(old.shape[axis]).reshape(num_heads, per_head)[kept]
        old = np.take(old, columns.ravel(), axis=axis)
    return old
