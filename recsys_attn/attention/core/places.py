"""Positions of queries and keys, for scores and patterns that depend on them."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from recsys_attn.attention.core.mask_checks import mask_of
from recsys_attn.tensors import Config, Tensor


class PlacesAndTimes(NamedTuple):
    """Positions of queries or of keys: their places in the sequence, and their times.

    Attributes:
        places: (B or 1, N or 1, T), int32; None for the default ones.
        times: (B or 1, N or 1, T), int32; None for the places.
    """

    places: Tensor | None = None
    times: Tensor | None = None

    @classmethod
    def of(cls, positions: Any, are_times: bool) -> PlacesAndTimes:
        """Returns the positions of a call, which are times or places."""
        if isinstance(positions, PlacesAndTimes):
            return positions
        return cls(times=positions) if are_times else cls(places=positions)

    def read_by(self, part: Any) -> Tensor | None:
        """Returns the positions for a part, by its attribute `uses_times`."""
        return self.times if part.uses_times and self.times is not None else self.places


def natural_positions(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the default positions: keys at 0 ... S-1, queries at the last T of them.

    So in self-attention both sides have the same positions, queries over a longer memory continue
    it, and a single query is the latest event.

    Args:
        query: (B, T, ...).
        key: (B, S, ...).

    Returns:
        Positions of the queries (1, 1, T) and of the keys (1, 1, S), int32.
    """
    queries, keys = ops.shape(query)[1], ops.shape(key)[1]
    columns = ops.arange(keys, dtype="int32")
    rows = ops.arange(queries, dtype="int32") + ops.cast(keys - queries, "int32")
    return rows[None, None], columns[None, None]


def recency(key_mask: Any) -> Tensor:
    """Positions that count back from the candidate: -1 is the last event that is present.

    As `key_positions`, with zeros as `query_positions`, they give a positional score the number of
    events since each event, independent of padding and of the number of candidates. A pattern that
    uses the length needs positions that start at 0.

    Args:
        key_mask: (B, S), False for padded events.

    Returns:
        (B, S) int32: minus the number of events present from this one to the end.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention import masks
    >>> print(np.asarray(masks.recency([[True, True, True, False]])))
    [[-3 -2 -1  0]]
    """
    present = ops.cast(mask_of("key_mask", key_mask, "BS"), "int32")
    return ops.cumsum(present, axis=1) - present - ops.sum(present, axis=1, keepdims=True)


def front_first(event_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the order that moves present events to the front, and the new place of each event.

    Args:
        event_mask: (B, S), False for missing events.
    """
    present = ops.cast(event_mask, "int32")
    before = ops.cumsum(present, axis=1) - present
    behind = ops.sum(present, axis=1, keepdims=True) + ops.cumsum(1 - present, axis=1) - 1
    places = ops.where(ops.cast(event_mask, "bool"), before, behind)
    return ops.argsort(places, axis=1), places


def compact(
    mechanism: Any, key: Tensor, key_mask: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Moves padding behind the keys of a mechanism whose result depends on their columns.

    Args:
        mechanism: The mechanism that gets the keys.
        key: (B, S, E).
        key_mask: (B, S), False for padded keys.

    Returns:
        The keys, the mask, and the new column of each key for `in_columns`; None if none moved.
    """
    if key_mask is None or not mechanism.reads_columns:
        return key, key_mask, None
    order, columns = front_first(key_mask)
    moved = ops.take_along_axis(key, order[..., None], axis=1)
    return moved, ops.take_along_axis(key_mask, order, axis=1), columns


def in_columns(weights: Tensor, columns: Tensor | None) -> Tensor:
    """Returns weights (B, ..., S) of compacted keys in the columns that these had before."""
    if columns is None:
        return weights
    between = (1,) * (len(weights.shape) - 2)
    columns = ops.reshape(columns, (-1, *between, ops.shape(columns)[-1]))
    return ops.take_along_axis(weights, ops.broadcast_to(columns, ops.shape(weights)), axis=-1)


def after_the_last(mechanism: Any, query: Tensor, key: Tensor, key_mask: Tensor | None) -> Config:
    """Returns positions for queries outside of the sequence, such as candidates.

    Keys that are present get 0, 1, ..., and every query the position after the last of them. So
    the order of the queries does not matter, they see every key of a causal mechanism, and padding
    changes nothing.

    Args:
        mechanism: The mechanism that gets the positions.
        query: (B, T, ...).
        key: (B, S, ...).
        key_mask: (B, S), False for padded keys.

    Returns:
        `query_positions` (B, T) and `key_positions` (B, S) by name; an empty dict for a mechanism
        that is not positional.
    """
    if not mechanism.positional:
        return {}
    if key_mask is None:
        key_mask = ops.ones(ops.shape(key)[:2], dtype="bool")
    now = ops.sum(ops.cast(key_mask, "int32"), axis=1, keepdims=True)
    return {
        "query_positions": ops.repeat(now, ops.shape(query)[1], axis=1),
        "key_positions": recency(key_mask) + now,
    }


def resolve(
    query: Tensor, key: Tensor, query_positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Replaces positions that are None by the default ones."""
    rows, columns = natural_positions(query, key)
    return (
        rows if query_positions is None else query_positions,
        columns if key_positions is None else key_positions,
    )


def length_of(key: Tensor, key_positions: Tensor | None, key_mask: Tensor | None) -> Any:
    """Returns the number of positions up to the last key that is present, for patterns.

    Args:
        key: (B, S, ...).
        key_positions: (B or 1, N or 1, S); None for the default ones.
        key_mask: (B, S), False for padded keys.

    Returns:
        S if neither is given, else (B or 1, N or 1, 1, 1) int32.
    """
    if key_positions is None and key_mask is None:
        return ops.shape(key)[1]
    places = natural_positions(key, key)[1] if key_positions is None else key_positions
    if key_mask is not None:
        places = ops.where(ops.cast(key_mask, "bool")[:, None], places, -1)
    return ops.max(places, axis=-1, keepdims=True, initial=-1)[..., None] + 1


def pairs(query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
    """Returns rows (B or 1, N or 1, T, 1) and columns (B or 1, N or 1, 1, S)."""
    return query_positions[..., :, None], key_positions[..., None, :]
