"""Single global tokens beside blocks: they attend all keys, and all queries attend them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from recsys_attn.attention.routers.group_layout import exists, taken
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.checks import require_integer
from recsys_attn.tensors import Tensor


def token_positions(given: Any) -> tuple[int, ...]:
    """Returns checked positions of global tokens; an empty list for none."""
    if not isinstance(given, list | tuple):
        raise ValueError(f"`tokens` must be a list of integers. Received: tokens={given!r}")
    for index, token in enumerate(given):
        require_integer(f"tokens[{index}]", token)
    return tuple(int(token) for token in given)


def token_places(tokens: Sequence[int], length: Tensor, keys: Tensor) -> Tensor:
    """Returns the place of each token (..., G), int32; -1 for none and for a repetition.

    Args:
        tokens: Positions; negative ones count from the end.
        length: Number of positions up to the last event (..., 1).
        keys: Number of keys S.
    """
    given = ops.convert_to_tensor(tokens, dtype="int32")
    length = ops.cast(length, "int32")
    place = ops.where(given < 0, given + length, given + ops.zeros_like(length))
    place = ops.where(exists(place, keys), place, -1)
    number = ops.arange(len(tokens))
    same = ops.equal(place[..., :, None], place[..., None, :])
    again = ops.any(ops.logical_and(same, number[:, None] > number), axis=-1)
    return ops.where(again, -1, place)


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
    own, number = at_tokens(places, ops.shape(sequence)[1])
    return ops.where(own[..., None, None], taken(outputs, number), sequence)


def at_tokens(places: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Returns whether each position is a token, and the number of the token: (B or 1, S)."""
    same = ops.equal(ops.arange(length, dtype="int32")[:, None], places[:, None, :])
    return ops.any(same, axis=-1), ops.cast(ops.argmax(ops.cast(same, "int32"), axis=-1), "int32")


def beside(blocks: Tensor, sequence: Tensor, places: Tensor) -> Tensor:
    """Puts the tokens of a sequence (B, S, ...) behind the keys of each block.

    (B, blocks, keys, ...) -> (B, blocks, keys + G, ...).
    """
    batch, count, _, *rest = ops.shape(blocks)
    far = taken(sequence, places)[:, None]
    far = ops.broadcast_to(far, (batch, count, ops.shape(places)[1], *rest))
    return ops.concatenate([blocks, far], axis=2)
