"""How masks meet: by AND, in the shape of the scores."""

from __future__ import annotations

import functools
from typing import Any

from keras import ops

from recsys_attn.attention.core.mask_checks import require_pairs, require_side, sizes_of
from recsys_attn.tensors import Shape, Tensor


def allowed_pairs(
    query_shape: Shape,
    key_shape: Shape,
    query_mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
) -> Tensor | None:
    """Which pairs of a query and a key count: the AND of the masks that are given.

    Args:
        query_shape: Shape of the queries, (B, T, ...).
        key_shape: Shape of the keys, (B, S, ...).
        query_mask: (B, T), False for padded queries.
        key_mask: (B, S), False for padded keys.
        attention_mask: (B, T, S), or (B, N, T, S) for one mask a head.

    Returns:
        Booleans that broadcast to (B, N, T, S), or None where no mask is given.

    Raises:
        TypeError: A mask is neither boolean nor integer.
        ValueError: A mask has another shape.
    """
    sizes = sizes_of(query_shape, key_shape)
    masks = []
    if query_mask is not None:
        masks.append(_mask("query_mask", query_mask, sizes, "T")[:, None, :, None])
    if key_mask is not None:
        masks.append(_mask("key_mask", key_mask, sizes, "S")[:, None, None, :])
    if attention_mask is not None:
        masks.append(pairwise("attention_mask", attention_mask, query_shape, key_shape, "bool"))
    return functools.reduce(ops.logical_and, masks) if masks else None


def both(first: Tensor, second: Tensor | None) -> Tensor:
    """The AND of two masks, of which the second may be None."""
    return first if second is None else ops.logical_and(first, second)


def pairwise(
    name: str, given: Tensor, query_shape: Shape, key_shape: Shape, dtype: str = "float32"
) -> Tensor:
    """(B, T, S) or (B, N, T, S) as (B, N or 1, T, S); a mask where `dtype` is "bool"."""
    given = ops.convert_to_tensor(given)
    require_pairs(name, given, sizes_of(query_shape, key_shape), is_mask=dtype == "bool")
    given = ops.cast(given, dtype)
    return given[:, None] if len(given.shape) == 3 else given


def _mask(name: str, given: Any, sizes: dict[str, int | None], letter: str) -> Tensor:
    given = ops.convert_to_tensor(given)
    require_side(name, given, sizes, letter)
    return ops.cast(given, "bool")
