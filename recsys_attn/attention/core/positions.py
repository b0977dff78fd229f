"""Where queries and keys stand: integers that scores and patterns look at."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.mask_checks import mask_of
from recsys_attn.tensors import Config, Tensor


def natural_positions(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Keys stand at 0 ... S-1, and the queries are the last T of those positions.

    So a sequence that attends to itself has the same positions on both sides, queries over a
    longer memory continue it, and a single query is the latest event.

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

    Given as `key_positions`, with zeros as `query_positions`, they make a score that looks at
    positions see how many events ago each one was, wherever the padding stands and however many
    candidates there are. A pattern that uses the length needs positions from 0.

    Args:
        key_mask: (B, S), False for padded events.

    Returns:
        (B, S) int32: minus the number of events present from there to the end.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention import masks
    >>> print(np.asarray(masks.recency([[True, True, True, False]])))
    [[-3 -2 -1  0]]
    """
    present = ops.cast(mask_of("key_mask", key_mask, "BS"), "int32")
    return ops.cumsum(present, axis=1) - present - ops.sum(present, axis=1, keepdims=True)


def after_the_last(mechanism: Any, query: Tensor, key: Tensor, key_mask: Tensor | None) -> Config:
    """Positions for queries that are no part of the sequence: candidates, learned queries.

    Keys that are present stand at 0, 1, ... and every query right after the last of them. So the
    queries are not told from each other by their order, they see every key of a causal
    mechanism, and padding changes nothing wherever it stands.

    Args:
        mechanism: Takes the positions if it is `positional`.
        query: (B, T, ...).
        key: (B, S, ...).
        key_mask: (B, S), False for padded keys.

    Returns:
        `query_positions` (B, T) and `key_positions` (B, S) by name; nothing for a mechanism that
        does not look at positions.
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
    """The positions given, and the natural ones in the place of None."""
    rows, columns = natural_positions(query, key)
    return (
        rows if query_positions is None else query_positions,
        columns if key_positions is None else key_positions,
    )


def length_of(key: Tensor, key_positions: Tensor | None, key_mask: Tensor | None) -> Any:
    """Number of positions up to the last key that is there, for patterns.

    Args:
        key: (B, S, ...).
        key_positions: (B or 1, N or 1, S); None for the natural ones.
        key_mask: (B, S), False for padded keys.

    Returns:
        S where neither is given, else (B or 1, N or 1, 1, 1) int32.
    """
    if key_positions is None and key_mask is None:
        return ops.shape(key)[1]
    places = natural_positions(key, key)[1] if key_positions is None else key_positions
    if key_mask is not None:
        places = ops.where(ops.cast(key_mask, "bool")[:, None], places, -1)
    return ops.max(places, axis=-1, keepdims=True, initial=-1)[..., None] + 1


def pairs(query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (B or 1, N or 1, T, 1) and columns (B or 1, N or 1, 1, S), which broadcast."""
    return query_positions[..., :, None], key_positions[..., None, :]
