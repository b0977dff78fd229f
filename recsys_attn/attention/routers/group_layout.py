"""Blocks of a sequence, and gathers of single tokens for each head."""

from __future__ import annotations

from collections.abc import Callable

from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes
from recsys_attn.attention.patterns.blocks import block_count
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.tensors import Shape, Tensor


def one_size(query_shape: Shape, key_shape: Shape, router: str) -> tuple[int, int]:
    """Returns N and H, for a router that needs queries and keys of one size."""
    heads, query_size, key_size = head_sizes(query_shape, key_shape)
    if query_size != key_size:
        raise ValueError(
            f"{router} compares queries and keys with the same vectors, so they must have one "
            f"size. Received: query size {query_size}, key size {key_size}"
        )
    return heads, query_size


def blocks_of(x: Tensor, size: int) -> Tensor:
    """(B, S, ...) -> (B, blocks, size, ...), padded at the end with zeros."""
    batch, length, *rest = ops.shape(x)
    count = block_count(length, size)
    x = padded(x, 0, count * size - length)
    return ops.reshape(x, (batch, count, size, *rest))


def sequence_of(blocks: Tensor, length: Tensor) -> Tensor:
    """(B, blocks, size, ...) -> (B, S, ...), without the padding."""
    return between(joined(blocks), 0, length)


def joined(blocks: Tensor) -> Tensor:
    """(B, blocks, size, ...) -> (B, blocks * size, ...)."""
    batch, count, size, *rest = ops.shape(blocks)
    return ops.reshape(blocks, (batch, count * size, *rest))


def taken(blocks: Tensor, index: Tensor) -> Tensor:
    """(B or 1, blocks, ...), (B or 1, ...K) -> (B or 1, ...K, ...); clips missing indices."""
    batch, count, *rest = ops.shape(blocks)
    index = ops.clip(index, 0, count - 1)
    if isinstance(batch, int) and batch == 1:
        return ops.take(blocks[0], index, axis=0)
    first = ops.arange(batch, dtype="int32") * count
    first = ops.reshape(first, (batch,) + (1,) * (len(index.shape) - 1))
    return _at(ops.reshape(blocks, (batch * count, *rest)), first + index)


def with_neighbours(blocks: Tensor, before: int, after: int) -> Tensor:
    """Each block between those around it: (B, blocks, (before + 1 + after) * size, ...).

    Blocks beyond the ends are zeros. Made of shifted copies: a gather of blocks is slower.
    """
    if not before and not after:
        return blocks
    count = ops.shape(blocks)[1]
    blocks = padded(blocks, before, after)
    shifted = [between(blocks, shift, shift + count) for shift in range(before + 1 + after)]
    return ops.concatenate(shifted, axis=2)


def between(x: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    """Returns `x[:, start:stop]`, with a gradient ten times faster on TensorFlow."""
    batch, _, *rest = ops.shape(x)
    return ops.slice(x, [0, start, *[0] * len(rest)], [batch, stop - start, *rest])


def as_groups(x: Tensor) -> Tensor:
    """(B, blocks, size, ...) -> (B * blocks, size, ...)."""
    batch, count, *rest = ops.shape(x)
    return ops.reshape(x, (batch * count, *rest))


def take_tokens(x: Tensor, positions: Tensor) -> Tensor:
    """(B, S, N, ...), (B, K, N) -> (B, K, N, ...): different tokens for each head."""
    batch, length, heads, *rest = ops.shape(x)
    rows = ops.reshape(x, (batch * length * heads, *rest))
    return _at(rows, _rows(positions, batch, length, heads))


def sum_tokens(x: Tensor, positions: Tensor, length: Tensor) -> Tensor:
    """(B, K, N, V), (B, K, N) -> (B, S, N, V): the sum over the tokens of each position."""
    batch, count, heads, size = ops.shape(x)
    total = reduced(
        ops.segment_sum,
        ops.reshape(x, (batch * count * heads, size)),
        ops.reshape(_rows(positions, batch, length, heads), (batch * count * heads,)),
        batch * length * heads,
    )
    return ops.reshape(total, (batch, length, heads, size))


def reduced(reduce: Callable[..., Tensor], x: Tensor, segments: Tensor, count: Tensor) -> Tensor:
    """Returns the sum or the maximum of each segment; an empty batch is returned unchanged."""
    # Keras on PyTorch takes a count of 0 for an unknown one.
    return x if isinstance(count, int) and not count else reduce(x, segments, count)


def looked_up(
    query: Tensor, key: Tensor, value: Tensor, index: Tensor, rows: Tensor, columns: Tensor
) -> Groups:
    """Returns groups of one query each with the keys found for it: G = B * T.

    Args:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        index: (B, N or 1, T, W) int32, indices of keys; negative for none.
        rows, columns: Positions of the queries (B or 1, N or 1, T) and of the keys
            (B or 1, N or 1, S).
    """
    batch, queries, *sizes = ops.shape(query)
    heads, few = index.shape[1], ops.shape(index)[3]
    tokens = ops.transpose(ops.maximum(index, 0), (0, 2, 3, 1))
    tokens = ops.reshape(tokens, (batch, queries * few, heads))

    def per_query(x: Tensor) -> Tensor:
        """(B, S, N or 1, ...) -> (B * T, W, N or 1, ...)."""
        shared = heads == 1  # one gather for all heads
        if shared:
            x = x[:, :, None]
        else:
            x = ops.broadcast_to(x, (*ops.shape(x)[:2], heads, *ops.shape(x)[3:]))
        x = take_tokens(x, tokens)
        x = x[:, :, 0] if shared else x
        return ops.reshape(x, (batch * queries, few, *ops.shape(x)[2:]))

    rows, columns = (
        ops.transpose(ops.broadcast_to(x, (batch, *ops.shape(x)[1:])), (0, 2, 1))
        for x in (rows, columns)
    )
    by_query = ops.transpose(index, (0, 2, 1, 3))
    by_query = ops.reshape(by_query, (batch * queries, heads, few))
    return Groups(
        ops.reshape(query, (batch * queries, 1, *sizes)),
        per_query(key),
        per_query(value),
        query_positions=ops.reshape(rows, (batch * queries, rows.shape[2], 1)),
        key_positions=ops.transpose(per_query(columns), (0, 2, 1)),
        allowed=by_query[:, :, None] >= 0,
        query_index=_numbers(batch, queries),
        key_index=ops.maximum(by_query, 0),
    )


def _numbers(batch: Tensor, queries: Tensor) -> Tensor:
    """Returns the index of the query of each group, (B * T, 1, 1)."""
    number = ops.broadcast_to(ops.arange(queries, dtype="int32"), (batch, queries))
    return ops.reshape(number, (batch * queries, 1, 1))


def exists(place: Tensor, count: Tensor) -> Tensor:
    """Returns whether a place is in 0 ... count-1."""
    return ops.logical_and(place >= 0, place < count)


def keys_at(places: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
    """Returns the index of the key at each place; -1 for no key or a padded one.

    (B or 1, N or 1, T, W), (B or 1, N or 1, S), (B, S) -> (B, N or 1, T, W).
    """
    batch, length = ops.shape(mask)
    heads = max(places.shape[1], positions.shape[1])
    taken = ops.logical_and(mask[:, None], exists(positions, length))
    # One row of the table per head, with one more place for keys outside of the sequence.
    rows = ops.reshape(ops.arange(batch * heads, dtype="int32"), (batch, heads, 1))
    cells = rows * (length + 1) + ops.where(taken, positions, length)
    number = batch * heads * length
    keys = ops.broadcast_to(ops.arange(length, dtype="int32"), (batch, heads, length))
    cells = ops.reshape(cells, (number,))
    table = reduced(ops.segment_max, ops.reshape(keys, (number,)), cells, number + batch * heads)
    table = ops.reshape(table, (batch, heads, length + 1))
    *_, queries, few = ops.shape(places)
    places = ops.broadcast_to(places, (batch, heads, queries, few))
    inside = ops.clip(ops.reshape(places, (batch, heads, queries * few)), 0, length)
    index = ops.reshape(ops.take_along_axis(table, inside, axis=-1), ops.shape(places))
    return ops.where(exists(places, length), ops.maximum(index, -1), -1)


def each_once(index: Tensor) -> Tensor:
    """Sorts indices along the last axis, and replaces repetitions by -1."""
    index = ops.sort(index, axis=-1)
    again = ops.equal(index[..., 1:], index[..., :-1])
    return ops.where(ops.pad(again, [(0, 0)] * (len(index.shape) - 1) + [(1, 0)]), -1, index)


def _at(rows: Tensor, index: Tensor) -> Tensor:
    """Gathers rows; also zero rows, whose axes JAX drops."""
    return ops.reshape(ops.take(rows, index, axis=0), (*ops.shape(index), *ops.shape(rows)[1:]))


def _rows(positions: Tensor, batch: Tensor, length: Tensor, heads: int) -> Tensor:
    first = ops.arange(batch, dtype="int32")[:, None, None] * length
    return (first + positions) * heads + ops.arange(heads, dtype="int32")


def padded(x: Tensor, before: Tensor, after: Tensor, axis: int = 1) -> Tensor:
    """Pads with zeros before and after along one axis."""
    if isinstance(before, int) and isinstance(after, int) and not before and not after:
        return x
    widths = [(0, 0)] * len(x.shape)
    widths[axis] = (before, after)
    return ops.pad(x, widths)
