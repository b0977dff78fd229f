"""Single global tokens beside blocks: they attend all keys, and all queries attend them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import broadcast_size
from recsys_attn.attention.routers.group_layout import exists, taken
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.checks import require_integer
from recsys_attn.tensors import Tensor


def token_positions(tokens: Any) -> tuple[int, ...]:
    """Returns checked positions of global tokens; an empty list for none."""
    if not isinstance(tokens, list | tuple):
        raise ValueError(f"`tokens` must be a list of integers. Received: tokens={tokens!r}")
    for index, token in enumerate(tokens):
        require_integer(f"tokens[{index}]", token)
    return tuple(int(token) for token in tokens)


def token_places(tokens: Sequence[int], length: Tensor, keys: Tensor) -> Tensor:
    """Returns the place of each token (..., G), int32; -1 for none and for a repetition.

    Args:
        tokens: Positions; negative ones count from the end.
        length: Number of positions up to the last event (..., 1).
        keys: Number of keys S.
    """
    places = ops.convert_to_tensor(tokens, dtype="int32")
    length = ops.cast(length, "int32")
    place = ops.where(places < 0, places + length, places + ops.zeros_like(length))
    place = ops.where(exists(place, keys), place, -1)
    number = ops.arange(len(tokens))
    same = ops.equal(place[..., :, None], place[..., None, :])
    again = ops.any(ops.logical_and(same, number[:, None] > number), axis=-1)
    return ops.where(again, -1, place)


def alone_at(tokens: Tensor, size: int, route: Tensor, counts: Tensor) -> Tensor:
    """Returns whether tokens are in no block of a route.

    (B or 1, ..., G), blocks (B or 1, ..., T, K) and their mask -> (B or 1, ..., T, G).
    """
    tokens = tokens[..., None, :]
    same = ops.equal((tokens // size)[..., None], route[..., None, :])
    in_route = ops.any(ops.logical_and(same, counts[..., None, :]), axis=-1)
    return ops.logical_and(tokens >= 0, ops.logical_not(in_route))


def with_tokens(places: Tensor, tokens: Tensor, size: int, route: Tensor, counts: Tensor) -> Tensor:
    """Adds the tokens (B or 1, N or 1, G) to the places (B or 1, N or 1, T, W) of a route."""
    alone = alone_at(tokens, size, route, counts)
    alone = ops.where(alone, tokens[..., None, :], -1)
    batch, heads, queries, _ = ops.shape(alone)
    places = ops.broadcast_to(places, (batch, heads, queries, ops.shape(places)[-1]))
    return ops.concatenate([places, alone], axis=-1)


def token_queries(
    query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None, places: Tensor
) -> Groups:
    """Groups the tokens' queries with all keys (B, S, N, H)."""
    return Groups(
        taken(query, places),
        key,
        value,
        query_positions=ops.maximum(places, 0)[:, None],
        key_positions=ops.arange(ops.shape(key)[1], dtype="int32")[None, None],
        allowed=None if key_mask is None else key_mask[:, None, None],
    )


def with_token_outputs(sequence: Tensor, outputs: Tensor, places: Tensor) -> Tensor:
    """Puts the outputs of tokens (B, G, N, V) at their places in a sequence (B, S, N, V)."""
    is_token, number = at_tokens(places, ops.shape(sequence)[1])
    return ops.where(is_token[..., None, None], taken(outputs, number), sequence)


def at_tokens(places: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Returns whether each position is a token, and the number of the token: (B or 1, S)."""
    same = ops.equal(ops.arange(length, dtype="int32")[:, None], places[:, None, :])
    return ops.any(same, axis=-1), ops.cast(ops.argmax(ops.cast(same, "int32"), axis=-1), "int32")


def beside(blocks: Tensor, sequence: Tensor, places: Tensor) -> Tensor:
    """Puts the tokens of a sequence (B, S, ...) behind the keys of each block.

    (B or 1, blocks, keys, ...) -> (B or 1, blocks, keys + G, ...).
    """
    _, count, keys, *rest = ops.shape(blocks)
    far = taken(sequence, places)[:, None]
    batch = broadcast_size(ops.shape(blocks)[0], ops.shape(far)[0])
    blocks = ops.broadcast_to(blocks, (batch, count, keys, *rest))
    far = ops.broadcast_to(far, (batch, count, ops.shape(places)[1], *rest))
    return ops.concatenate([blocks, far], axis=2)
