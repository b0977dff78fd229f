"""Look-ups in per-head tables by position, for positional scores."""

from __future__ import annotations

import functools

from keras import ops

from recsys_attn.attention.core.head_layout import broadcast_size, per_head
from recsys_attn.attention.core.places import pairs, resolve
from recsys_attn.tensors import Shape, Tensor


def places(
    query: Tensor, key: Tensor, query_positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Returns positions of queries (B or 1, N or 1, T) and of keys (B or 1, N or 1, S), int32."""
    rows, columns = resolve(query, key, query_positions, key_positions)
    return ops.cast(rows, "int32"), ops.cast(columns, "int32")


def distances(
    query: Tensor, key: Tensor, query_positions: Tensor | None, key_positions: Tensor | None
) -> Tensor:
    """Returns `i - j` for each query at i and key at j: int32 (B or 1, N or 1, T, S)."""
    rows, columns = pairs(*places(query, key, query_positions, key_positions))
    return rows - columns


def places_within(
    length: int,
    query: Tensor,
    key: Tensor,
    query_positions: Tensor | None,
    key_positions: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Returns positions, with those outside of 0 ... length - 1 moved to the nearest end.

    Raises:
        ValueError: There are more keys than positions, and `key_positions` is None. With positions
            the caller checks the length by `keys_within`, since the keys may be a part of the
            sequence.
    """
    if key_positions is None:
        key = keys_within(key, length)
    rows, columns = places(query, key, query_positions, key_positions)
    return ops.clip(rows, 0, length - 1), ops.clip(columns, 0, length - 1)


def keys_within(key: Tensor, length: int | None) -> Tensor:
    """Returns the keys of a whole sequence, (B, S, ...), after a check of their number.

    Raises:
        ValueError: There are more keys than `length`. A graph of unknown length fails when it runs.
    """
    keys = key.shape[1]
    if length is None or (keys is not None and keys <= length):
        return key
    if keys is not None:
        raise ValueError(
            f"`length` is the largest number of keys: build the score with length={keys} or "
            f"more, or cut the keys. Received: length={length}, key.shape={tuple(key.shape)}"
        )
    # The slice of `length` zeros fails at run time if there are more keys; adding it changes
    # nothing.
    nothing = ops.slice(ops.zeros((length,), key.dtype), (0,), ops.shape(key)[1:2])
    return key + ops.reshape(nothing, (1, -1) + (1,) * (len(key.shape) - 2))


def known_length(length: int | None, key_shape: Shape) -> int:
    """Returns the given length, or else the number of keys in `build`."""
    if length is not None:
        return length
    if key_shape[1] is None:
        raise ValueError(
            "`length` must be given where the number of keys S is not known when the score is "
            f"built. Received: length=None, key.shape={tuple(key_shape)}"
        )
    return int(key_shape[1])


def read_last(x: Tensor, index: Tensor) -> Tensor:
    """Reads the last axis: (B or 1, N, T, R), (B or 1, N or 1, T or 1, S) -> (B, N, T, S)."""
    if tuple(index.shape[:3]) == (1, 1, 1):
        return ops.take(x, index[0, 0, 0], axis=-1)
    return ops.take_along_axis(x, index, axis=-1)


def project_at(x: Tensor, kernel: Tensor, bias: Tensor | None, columns: Tensor) -> Tensor:
    """Returns some columns of `x W + b`.

    Args:
        x: (B, T, N, U).
        kernel: W of each head, (N, U, L).
        bias: b of each head, (N, L), or None.
        columns: Indices of the columns, (B or 1, N or 1, S).

    Returns:
        (B, N, T, S).
    """
    shared = tuple(columns.shape[:2]) == (1, 1)
    if shared:  # compute these columns only
        kernel = ops.take(kernel, columns[0, 0], axis=-1)
        bias = None if bias is None else ops.take(bias, columns[0, 0], axis=-1)
    product = per_head(x, kernel)
    if bias is not None:
        product = product + bias[:, None]
    return product if shared else read_last(product, columns[:, :, None])


def spread(logits: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Broadcasts logits to (B, N, T, S)."""
    _, queries, heads, _ = ops.shape(query)
    batch = functools.reduce(broadcast_size, (ops.shape(x)[0] for x in (logits, query, key)))
    return ops.broadcast_to(logits, (batch, heads, queries, ops.shape(key)[1]))
