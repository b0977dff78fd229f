"""The state of a recurrence after a whole history, in one pass where that is possible."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.layers import event_steps
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.attention.layers.recurrence import Recurrence
from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.attention.mechanisms.routed import Routed
from recsys_attn.blocks.attended import attend
from recsys_attn.blocks.segment_memory import SegmentMemory
from recsys_attn.tensors import Tensor


def state_after(
    recurrence: Recurrence, events: Tensor, present: Tensor, length: int | None = None
) -> tuple[Tensor, Any]:
    """Returns the outputs of a causal encoder, and its state after the last events.

    They are those of `Recurrence.step` over the events one by one. The caches of attention come
    from one pass; a mixer and linear attention step through the events.

    Args:
        recurrence: Of a `TransformerEncoder` or a `SegmentMemory`, without positions before it.
        events: (B, S, E), padded behind the last one.
        present: (B, S), False for padding.
        length: As in `Recurrence.initial_state`.

    Returns:
        (B, S, E) and the state.
    """
    encoder: Any = recurrence.layer
    if isinstance(encoder, SegmentMemory):
        return _after_segments(recurrence, events, present, length)
    x, states = events, []
    for block in encoder.applied:
        around = block.sublayers[0]
        entry = around.entry(x, present, None)
        update = attend(block.attention, entry, present, (None, None))
        states.append(_state_of(block.attention, entry, present, length))
        x = block.finish(around(x, update, present, None), present, None)
    return encoder.finish(x, present, None), tuple(states)


def _after_segments(recurrence: Recurrence, events: Tensor, present: Tensor, length: Any) -> Any:
    """Reads the caches from the inputs of the blocks, of which the memory keeps enough."""
    layer: SegmentMemory = recurrence.layer
    sizes = [empty.keys.shape[1] for empty in recurrence.initial_state(1, length)]
    memory = layer.initial_state(ops.shape(events)[0], max(layer.memory, *sizes))
    outputs, memory = layer(events, memory, present=present, return_state=True)
    states, count = [], _count(present)
    for index, (block, size) in enumerate(zip(layer.encoder.applied, sizes, strict=True)):
        in_memory = memory.mask[:, -size:]
        entry = block.sublayers[0].entry(memory.states[:, index, -size:], in_memory, None)
        keys, values = (
            ops.where(in_memory[:, :, None, None], x, ops.zeros_like(x))
            for x in _keys_and_values(block.attention, entry)
        )
        states.append(event_steps.KeyValueState(keys, values, count))
    return outputs, tuple(states)


def _state_of(layer: Any, events: Tensor, present: Tensor, length: int | None) -> Any:
    is_attention = isinstance(layer, MultiHeadAttention)
    if is_attention and isinstance(layer.mechanism, Dense | Routed):
        empty = event_steps.initial_state(layer, 1, length)
        count = _count(present)
        size = empty.keys.shape[1]
        places = count[:, None] + ops.arange(-size, 0, dtype="int32")
        keys, values = (_at(x, places) for x in _keys_and_values(layer, events))
        return event_steps.KeyValueState(keys, values, count)
    single = Recurrence(layer)
    state = single.initial_state(ops.shape(events)[0])

    def step(t: Tensor, *flat: Tensor) -> tuple[Tensor, ...]:
        event, is_present = ops.take(events, t[None], axis=1), ops.take(present, t, axis=1)
        _, new = single.step(keras.tree.pack_sequence_as(state, list(flat)), event, is_present)
        return (t + 1, *keras.tree.flatten(new))

    longest = ops.max(_count(present))
    start = (ops.convert_to_tensor(0, "int32"), *keras.tree.flatten(state))
    _, *flat = ops.while_loop(lambda t, *_: t < longest, step, start)
    return keras.tree.pack_sequence_as(state, flat)


def _keys_and_values(layer: MultiHeadAttention, events: Tensor) -> tuple[Tensor, Tensor]:
    events = ops.cast(events, layer.variable_dtype)
    _, key, value = layer.project_once(events, events, None)
    return ops.cast(key, layer.compute_dtype), ops.cast(value, layer.compute_dtype)


def _count(present: Tensor) -> Tensor:
    return ops.sum(ops.cast(present, "int32"), axis=1)


def _at(x: Tensor, places: Tensor) -> Tensor:
    """Returns the events `places` (B, C) of (B, S, K, H), zeros before the first one."""
    rows = ops.take_along_axis(x, ops.maximum(places, 0)[:, :, None, None], axis=1)
    return ops.where((places >= 0)[:, :, None, None], rows, ops.zeros_like(rows))
