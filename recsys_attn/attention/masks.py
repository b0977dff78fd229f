"""Masks known only with the batch: True always means "may be attended", and masks meet by AND."""

from __future__ import annotations

import functools

from keras import ops

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
    """
    queries, keys = query_shape[1], key_shape[1]
    masks = []
    if query_mask is not None:
        _check("query_mask", query_mask, {2: (queries,)}, "(B, T)")
        masks.append(ops.cast(query_mask, "bool")[:, None, :, None])
    if key_mask is not None:
        _check("key_mask", key_mask, {2: (keys,)}, "(B, S)")
        masks.append(ops.cast(key_mask, "bool")[:, None, None, :])
    if attention_mask is not None:
        masks.append(pairwise("attention_mask", attention_mask, query_shape, key_shape, "bool"))
    if pattern is not None:
        masks.append(pattern)
    return functools.reduce(ops.logical_and, masks) if masks else None


def pairwise(
    name: str, given: Tensor, query_shape: Shape, key_shape: Shape, dtype: str = "float32"
) -> Tensor:
    """(B, T, S) or (B, N, T, S) as (B, N or 1, T, S)."""
    sizes = (query_shape[1], key_shape[1])
    _check(name, given, {3: sizes, 4: sizes}, "(B, T, S) or (B, N, T, S)")
    given = ops.cast(given, dtype)
    return given[:, None] if len(given.shape) == 3 else given


def _check(name: str, value: Tensor, endings: dict[int, Shape], expected: str) -> None:
    """Rank and last sizes, so far as they are known; a size of 1 broadcasts."""
    shape = tuple(value.shape)
    ending = endings.get(len(shape))
    if ending is not None:
        sizes = zip(shape[-len(ending) :], ending, strict=True)
        if all(size is None or want is None or size in (1, want) for size, want in sizes):
            return
    wanted = next(iter(endings.values()))
    letters = {1: "T" if name == "query_mask" else "S", 2: "(T, S)"}[len(wanted)]
    raise ValueError(
        f"`{name}` must have shape {expected} with {letters}="
        f"{wanted[0] if len(wanted) == 1 else wanted}. Received: {name}.shape={shape}"
    )
