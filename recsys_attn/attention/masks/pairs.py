"""How masks meet: by AND, in the shape of the scores."""

from __future__ import annotations

import functools

import keras
from keras import ops

from recsys_attn.attention.layout import broadcast_batch
from recsys_attn.attention.masks.checks import require_mask
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
    sizes = _sizes(query_shape, key_shape)
    masks = []
    if query_mask is not None:
        require_mask("query_mask", query_mask)
        _require_shape("query_mask", query_mask, sizes, "BT")
        masks.append(ops.cast(query_mask, "bool")[:, None, :, None])
    if key_mask is not None:
        require_mask("key_mask", key_mask)
        _require_shape("key_mask", key_mask, sizes, "BS")
        masks.append(ops.cast(key_mask, "bool")[:, None, None, :])
    if attention_mask is not None:
        masks.append(pairwise("attention_mask", attention_mask, query_shape, key_shape, "bool"))
    if pattern is not None:
        masks.append(pattern)
    return functools.reduce(ops.logical_and, masks) if masks else None


def pairwise(
    name: str, given: Tensor, query_shape: Shape, key_shape: Shape, dtype: str = "float32"
) -> Tensor:
    """(B, T, S) or (B, N, T, S) as (B, N or 1, T, S); a mask where `dtype` is "bool"."""
    if dtype == "bool":
        require_mask(name, given)
    elif keras.backend.standardize_dtype(given.dtype) == "bool":
        raise TypeError(
            f"`{name}` is added to the scores. Give a mask as `attention_mask`. "
            f"Received: {name}.dtype=bool"
        )
    _require_shape(name, given, _sizes(query_shape, key_shape), "BTS", "BNTS")
    given = ops.cast(given, dtype)
    return given[:, None] if len(given.shape) == 3 else given


def _sizes(query_shape: Shape, key_shape: Shape) -> dict[str, int | None]:
    """What is known of the sizes of (B, N, T, S)."""
    batch = broadcast_batch(query_shape[0], key_shape[0])
    return {
        "B": None if batch == 1 else batch,  # the mask may be what makes it a batch
        "N": query_shape[2] if len(query_shape) == 4 else None,
        "T": query_shape[1],
        "S": key_shape[1],
    }


def _require_shape(name: str, given: Tensor, sizes: dict[str, int | None], *forms: str) -> None:
    """Raises unless a form in letters fits, so far as sizes are known; a size of 1 broadcasts."""
    shape = tuple(given.shape)
    for form in forms:
        if len(form) == len(shape):
            pairs = [(size, sizes[letter]) for size, letter in zip(shape, form, strict=True)]
            if all(size in (None, 1, wanted) or wanted is None for size, wanted in pairs):
                return
    expected = " or ".join(f"({', '.join(form)})" for form in forms)
    known = ", ".join(f"{x}={sizes[x]}" for x in forms[-1] if sizes[x] is not None)
    raise ValueError(
        f"`{name}` must have shape {expected}{' with ' if known else ''}{known}. "
        f"Received: {name}.shape={shape}"
    )
