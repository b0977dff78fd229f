"""Layouts of per-head tensors: products, broadcasting and checks of shapes."""

from __future__ import annotations

from keras import ops

from recsys_attn.tensors import Shape, Tensor


def swap_heads(x: Tensor) -> Tensor:
    """(B, T, N, H) -> (B, N, T, H), and back."""
    if 1 in x.shape[1:3]:  # the memory layout is the same
        batch, first, second, size = ops.shape(x)
        return ops.reshape(x, (batch, second, first, size))
    return ops.transpose(x, (0, 2, 1, 3))


def per_head(x: Tensor, kernel: Tensor) -> Tensor:
    """Multiplies each head by its own matrix: (B, T, N, H), (N, H, U) -> (B, N, T, U)."""
    return ops.einsum("btnh,nhu->bntu", x, kernel)


def batched_matmul(first: Tensor, second: Tensor) -> Tensor:
    """(B, N, X, Y), (B, N, Y, Z) -> (B, N, X, Z); one of the two batches may be 1.

    A second tensor of batch 1 is not repeated: all rows of the batch enter one product with it.
    A first one is repeated, and not by `matmul`: TensorFlow 2.21 on a CPU corrupts its memory when
    it broadcasts tensors of rank 4 (tensorflow/tensorflow#123109).
    """
    if second.shape[0] == 1 != first.shape[0]:
        batch, heads, rows, inner = ops.shape(first)
        flat = ops.reshape(ops.transpose(first, (1, 0, 2, 3)), (1, heads, batch * rows, inner))
        product = ops.reshape(ops.matmul(flat, second), (heads, batch, rows, ops.shape(second)[-1]))
        return ops.transpose(product, (1, 0, 2, 3))
    if first.shape[0] == 1 != second.shape[0]:
        first = ops.broadcast_to(first, (*ops.shape(second)[:1], *ops.shape(first)[1:]))
    return ops.matmul(first, second)


def dot_products(query: Tensor, key: Tensor) -> Tensor:
    """Dot products: (B, T, N, H), (B, S, N, H) -> (B, N, T, S); one of the batches may be 1."""
    if query.shape[0] == 1 != key.shape[0]:
        # All keys of the batch enter one product with the shared queries.
        batch, keys, heads, size = ops.shape(key)
        key = ops.reshape(key, (batch * keys, heads, size))
        flat = key[:, 0][None] if heads == 1 else ops.transpose(key, (1, 0, 2))
        product = ops.matmul(flat, ops.transpose(query[0], (1, 2, 0)))  # (N, B * S, T)
        product = ops.reshape(product, (heads, batch, keys, ops.shape(query)[1]))
        return ops.transpose(product, (1, 0, 3, 2))
    return batched_matmul(swap_heads(query), ops.transpose(key, (0, 2, 3, 1)))


def broadcast_batch(first: int | None, second: int | None) -> int | None:
    """Returns the static batch of the product of two tensors; one batch may be 1."""
    if first == 1 or second == 1:
        return second if first == 1 else first
    if first is not None and second is not None and first != second:
        raise ValueError(
            "`query`, `key` and `value` must have the same batch, or a batch of 1. "
            f"Received: batches of {first} and {second}"
        )
    return second if first is None else first  # an unknown batch must be the same, or 1


def broadcast_size(first: Tensor, second: Tensor) -> Tensor:
    """Returns the size that two sizes broadcast to; each is an integer or a scalar tensor."""
    for one, other in ((first, second), (second, first)):
        if isinstance(one, int):
            return other if one == 1 else one
    return ops.where(ops.equal(first, 1), second, first)


def logits_shape(query_shape: Shape, key_shape: Shape) -> Shape:
    """(B, T, N, H), (B, S, N, H) -> (B, N, T, S)."""
    batch = broadcast_batch(query_shape[0], key_shape[0])
    return (batch, query_shape[2], query_shape[1], key_shape[1])


def require_a_value_a_key(key_shape: Shape, value_shape: Shape) -> None:
    """Raises unless the known numbers of keys and values, and of their heads, are equal."""
    broadcast_batch(key_shape[0], value_shape[0])
    for keys, values in zip(key_shape[1:3], value_shape[1:3], strict=True):
        if keys != values and None not in (keys, values):
            raise ValueError(
                "`key` and `value` must have shapes (B, S, N, H) and (B, S, N, V) with the same "
                f"S and N. Received: key.shape={key_shape}, value.shape={value_shape}"
            )


def head_sizes(query_shape: Shape, key_shape: Shape) -> tuple[int, int, int]:
    """Returns N, H of the query and H of the key."""
    if len(query_shape) != 4 or len(key_shape) != 4 or query_shape[2] != key_shape[2]:
        raise ValueError(
            "`query` and `key` must have shapes (B, T, N, H) and (B, S, N, H) with the same N. "
            f"Received: query.shape={tuple(query_shape)}, key.shape={tuple(key_shape)}"
        )
    heads, query_size, key_size = query_shape[2], query_shape[3], key_shape[3]
    if heads is None or query_size is None or key_size is None:
        raise ValueError(
            "The number of heads N and the head size H must be known when the layer is built. "
            f"Received: query.shape={tuple(query_shape)}, key.shape={tuple(key_shape)}"
        )
    return heads, query_size, key_size


def require_equal_sizes(query_size: int, key_size: int, score: str) -> int:
    """Returns H, for a score that compares queries and keys channel by channel."""
    if query_size != key_size:
        raise ValueError(
            f"{score} compares vectors of one size; use the score 'general' or 'additive' for "
            f"two. Received: query size {query_size}, key size {key_size}"
        )
    return query_size
