"""The encoded events of one history of a user, and what one more event needs."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from pipelines.export.packed_state import after_steps
from recsys_attn.attention.layers.prefill import state_after
from recsys_attn.attention.layers.recurrence import Recurrence
from recsys_attn.blocks.encoder import TransformerEncoder
from recsys_attn.blocks.segment_memory import SegmentMemory
from recsys_attn.models.encoded_history import Encoded, EncodedHistory


class EncoderState(NamedTuple):
    """The state of a history.

    Attributes:
        count: `(B,)`, the number of its events, int32.
        events: `(B, L, K)`, the encoded events, the oldest first.
        recurrence: The state of the encoder; empty where it makes no steps.
    """

    count: tf.Tensor
    events: tf.Tensor
    recurrence: Any = ()

    def encoded(self) -> Encoded:
        """What the history layer reads."""
        return Encoded(self.events, tf.range(self.events.shape[1]) < self.count[:, None])


def why_no_steps(history: EncodedHistory) -> str | None:
    """Returns why an encoder cannot add one event to those before; None if it can."""
    if history.context is not None:
        return "The encoder reads features of the request beside the events."
    if not isinstance(history.encoder, TransformerEncoder | SegmentMemory):
        return f"{type(history.encoder).__name__} has no form event by event."
    try:
        Recurrence(history.encoder, history.positions)
    except TypeError as error:
        return str(error)
    return None


class EncoderSteps:
    """The state of a history whose encoder goes on event by event.

    Args:
        history: A built layer for which `why_no_steps` has no reason.
        length: The most events L that the model sees.
    """

    def __init__(self, history: EncodedHistory, length: int) -> None:
        self._recurrence = Recurrence(history.encoder)
        self._positions: Any = history.positions
        self._length = length

    def start(self, events: tf.Tensor, present: tf.Tensor) -> EncoderState:
        """Returns the state after events `(B, L, K)`, of which the `present` ones come first."""
        count = tf.reduce_sum(tf.cast(present, tf.int32), axis=1)
        longest = tf.maximum(tf.reduce_max(count), 1)
        events, present = events[:, :longest], present[:, :longest]
        if self._positions is not None:
            events = self._positions(events, present=present)
        outputs, recurrence = state_after(self._recurrence, events, present, self._length)
        outputs = tf.pad(outputs, [[0, 0], [0, self._length - longest], [0, 0]])
        return EncoderState(count, outputs, recurrence)

    def step(self, state: EncoderState, events: tf.Tensor, present: tf.Tensor) -> EncoderState:
        """Returns the state after further events `(B, S, K)`, the `present` ones first."""
        places = tf.range(self._length)

        def add(t: tf.Tensor, state: EncoderState) -> EncoderState:
            event, is_new = events[:, t, None], present[:, t]
            if self._positions is not None:
                event = self._positions.at(event, state.count[:, None])
            output, after = self._recurrence.step(state.recurrence, event, is_new)
            is_full = is_new & (state.count >= self._length)  # the oldest leaves
            before = tf.where(is_full[:, None, None], tf.roll(state.events, -1, 1), state.events)
            place = tf.minimum(state.count, self._length - 1)
            here = is_new[:, None] & (places == place[:, None])
            encoded = tf.where(here[..., None], tf.cast(output, before.dtype), before)
            return EncoderState(state.count + tf.cast(is_new, tf.int32), encoded, after)

        longest = tf.reduce_max(tf.reduce_sum(tf.cast(present, tf.int32), axis=1))
        after: EncoderState = after_steps(state, longest, add)
        return after
