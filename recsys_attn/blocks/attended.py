"""Calls of attention by a block: masks, bias, positions and a memory."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_mask_of
from recsys_attn.serialization import takes
from recsys_attn.tensors import Shape, Tensor

# The arguments of a block, and those of its attention that they become.
_ARGUMENTS = {
    "attention_mask": ("attention_mask",),
    "attention_bias": ("attention_bias",),
    "positions": ("query_positions", "key_positions"),
    "segments": ("query_segments", "key_segments"),
    "memory": ("value",),
    "context": ("context", "context_mask"),
}


def is_mixer(layer: keras.layers.Layer) -> bool:
    """Returns whether a layer mixes one sequence (B, S, E) and takes only its mask, `present`."""
    return takes(layer, "present") and not takes(layer, "query_mask", "key_mask")


def require_arguments(attention: keras.layers.Layer, arguments: dict[str, Any]) -> None:
    """Raises unless attention takes the arguments of a block that are given.

    Raises:
        TypeError: It does not.
        ValueError: There is a mask of the memory or the context, and no such.
    """
    for name in ("memory", "context"):
        if arguments.get(f"{name}_mask") is not None and arguments.get(name) is None:
            raise ValueError(
                f"`{name}_mask` is the mask of `{name}`; give both. Received: {name}=None"
            )
    for name, needed in _ARGUMENTS.items():
        if arguments.get(name) is not None and not takes(attention, *needed):
            raise TypeError(
                f"`{name}` needs an attention that takes {' and '.join(needed)}, such as "
                f"MultiHeadAttention. Received: {attention!r}"
            )


def attend(
    attention: keras.layers.Layer,
    x: Tensor,
    present: Tensor | None,
    memory: tuple[Tensor | None, Tensor | None],
    query: Tensor | None = None,
    **arguments: Tensor | None,
) -> Tensor:
    """Returns the attention of a sequence to its memory and itself.

    Args:
        attention: A layer such as `MultiHeadAttention`, or a mixer.
        x: (B, S, E).
        present: (B, S).
        memory: The memory (B, M, E) and its mask (B, M), or None.
        query: (B, S, E), another stream at the places of the sequence; x if it is None.
        arguments: `attention_mask`, `attention_bias`, `positions`, `segments`, `context`,
            `context_mask`; None for those not given.
    """
    before, before_mask = memory
    require_arguments(attention, {**arguments, "memory": before, "memory_mask": before_mask})
    if is_mixer(attention):
        return attention(x, present=present)
    placed = {name: arguments.pop(name, None) for name in ("positions", "segments")}
    others = {name: value for name, value in arguments.items() if value is not None}
    keys, key_mask, length = x, present, 0
    if before is not None:
        require_mask_of("memory_mask", before_mask, before)
        keys, length = ops.concatenate([ops.cast(before, x.dtype), x], axis=1), ops.shape(before)[1]
        key_mask = _joined(before, before_mask, x, present)
    for name, positions in placed.items():
        if positions is not None:
            others[f"key_{name}"] = ops.convert_to_tensor(positions)
            others[f"query_{name}"] = others[f"key_{name}"][..., length:]
    query = x if query is None else query
    return attention(query, keys, query_mask=present, key_mask=key_mask, **others)


def join_shapes(memory_shape: Shape | None, shape: Shape) -> Shape:
    """Returns the shape of a memory (B, M, E) and a sequence (B, S, E) together."""
    if memory_shape is None:
        return shape
    sizes = memory_shape[1], shape[1]
    return (shape[0], None if None in sizes else sum(size or 0 for size in sizes), shape[2])


def _joined(
    before: Tensor, before_mask: Tensor | None, x: Tensor, present: Tensor | None
) -> Tensor | None:
    if before_mask is None and present is None:
        return None
    masks = [
        ops.ones(ops.shape(inputs)[:2], "bool") if mask is None else ops.cast(mask, "bool")
        for mask, inputs in ((before_mask, before), (present, x))
    ]
    return ops.concatenate(masks, axis=1)
