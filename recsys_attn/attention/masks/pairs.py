"""How masks meet: by AND, in the shape of the scores."""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.masks.checks import require_mask, require_shape, sizes_of
from recsys_attn.tensors import Shape, Tensor


def allowed_pairs(
    query_shape: Shape,
    key_shape: Shape,
    query_mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    pattern: Tensor | None = None,
) -> Tensor | None:
    """Which pairs of a query and a key count: the AND of the masks that are given.

    Args:
        query_shape: Shape of the queries, (B, T, ...).
        key_shape: Shape of the keys, (B, S, ...).
        query_mask: (B, T), False for padded queries.
        key_mask: (B, S), False for padded keys.
        attention_mask: (B, T, S), or (B, N, T, S) for one mask a head.
        pattern: What a pattern allows, broadcast to (B, N, T, S).

    Returns:
        Booleans that broadcast to (B, N, T, S), or None where no mask is given.

    Raises:
        TypeError: A mask is neither boolean nor integer.
        ValueError: A mask has another shape.
    """
    sizes = sizes_of(query_shape, key_shape)
    masks = []
    if query_mask is not None:
        masks.append(_mask("query_mask", query_mask, sizes, "BT")[:, None, :, None])
    if key_mask is not None:
        masks.append(_mask("key_mask", key_mask, sizes, "BS")[:, None, None, :])
    if attention_mask is not None:
        masks.append(pairwise("attention_mask", attention_mask, query_shape, key_shape, "bool"))
    if pattern is not None:
        masks.append(pattern)
    return functools.reduce(ops.logical_and, masks) if masks else None


def pairwise(
    name: str, given: Tensor, query_shape: Shape, key_shape: Shape, dtype: str = "float32"
) -> Tensor:
    """(B, T, S) or (B, N, T, S) as (B, N or 1, T, S); a mask where `dtype` is "bool"."""
    given = ops.convert_to_tensor(given)
    if dtype == "bool":
        require_mask(name, given)
    elif keras.backend.standardize_dtype(given.dtype) == "bool":
        raise TypeError(
            f"`{name}` is added to the scores. Give a mask as `attention_mask`. "
            f"Received: {name}.dtype=bool"
        )
    require_shape(name, given, sizes_of(query_shape, key_shape), "BTS", "BNTS")
    given = ops.cast(given, dtype)
    return given[:, None] if len(given.shape) == 3 else given


def _mask(name: str, given: Any, sizes: dict[str, int | None], form: str) -> Tensor:
    given = ops.convert_to_tensor(given)
    require_mask(name, given)
    require_shape(name, given, sizes, form)
    return ops.cast(given, "bool")
