"""The signatures of a sequence model that goes on from a user's state, event by event."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.export.packed_state import (
    RANK_FROM_STATE,
    START,
    STATE,
    STEP,
    PackedState,
    after_steps,
    fingerprint,
)
from pipelines.export.serving_module import concrete
from pipelines.pretraining.export_module import (
    CANDIDATES,
    EXCLUDE,
    SCORE,
    NextItemModule,
)
from recsys_attn.attention.layers.prefill import state_after
from recsys_attn.attention.layers.recurrence import Recurrence
from recsys_attn.models import SequenceModel
from recsys_attn.models.sequence_model import Events

NEXT_FROM_STATE = "next_items_from_state"


def why_stateless(model: SequenceModel) -> str | None:
    """Returns why a model cannot go on from a state; None if it can."""
    if model.appends is not None:
        return "Each new event changes the states of the events before it."
    if model.encoder.uses_times:
        return "The model reads the ages of the events, which each request changes."
    try:
        Recurrence(model.encoder.encoder, model.encoder.positions)
    except TypeError as error:
        return str(error)
    return None


class StateModule:
    """Keeps what a causal model computes of a user's events in one vector `state` `(B, D)`.

    `start` takes the events of users and returns `state`; `step` takes `state` and further events
    `(B, S)`, and returns the state after them. `next_items_from_state` and `rank_from_state` take
    `state` in place of the events; a state has no list of items, so that items of the history are
    left out only where `exclude` has them. Up to `max_length` events the scores are those of the
    whole pass. Later events push the oldest out of a cache, whose traces stay in the states of
    others; sums and hidden states lose none.

    A state begins with the fingerprint of the model's weights and the number of its events. All
    scores of a state with another fingerprint are NaN, and so are those after further steps: an
    error would fail the other requests of a batch too.

    Args:
        model: A model for which `why_stateless` has no reason.
        module: Its signatures without a state.
    """

    def __init__(self, model: SequenceModel, module: NextItemModule) -> None:
        self._model, self._module = model, module
        self._recurrence = Recurrence(model.encoder.encoder)
        self._length = model.max_length * model.per_event
        self._packed = PackedState(fingerprint(model), self._empty(1))

    @property
    def size(self) -> int:
        """The length D of a state."""
        return int(self._packed.spec.shape[1])

    def signatures(self) -> dict[str, Any]:
        """Concrete functions by signature name."""
        events, items = self._module.events, self._module.items
        state = {STATE: self._packed.spec}
        return {
            START: concrete(self._start, events),
            STEP: concrete(self._step, {**state, **events}),
            NEXT_FROM_STATE: concrete(self._next_items, {**state, EXCLUDE: items}),
            RANK_FROM_STATE: concrete(self._rank, {**state, CANDIDATES: items}),
        }

    def _start(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = self._module.inputs(raw)
        is_event = tf.reduce_any([x != 0 for x in inputs.values()], axis=0)
        longest = tf.maximum(tf.reduce_max(tf.reduce_sum(tf.cast(is_event, tf.int32), axis=1)), 1)
        events = self._events({name: ids[:, :longest] for name, ids in inputs.items()})
        count = tf.reduce_sum(tf.cast(events.present, tf.int32), axis=1)
        entered = self._model.encoder.enter(events.vectors, events.present, training=False)
        outputs, state = state_after(self._recurrence, entered, events.present, self._length)
        last = tf.gather(outputs, tf.maximum(count - 1, 0), axis=1, batch_dims=1)
        return {STATE: self._packed.pack((count, state, last))}

    def _step(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        before, is_current = self._packed.unpack(raw.pop(STATE))
        # A window of the new events would differ from their steps: a hidden state reads them all.
        events = self._events(self._module.inputs(raw, whole=True))
        encoder = self._model.encoder

        def step(t: tf.Tensor, state: Any) -> Any:
            count, before, last = state
            event, present = events.vectors[:, t, None], events.present[:, t, None]
            entered = encoder.enter(event, present, training=False, places=count[:, None])
            output, after = self._recurrence.step(before, entered, present[:, 0])
            output = tf.where(present, tf.cast(output[:, 0], last.dtype), last)
            return count + tf.cast(present[:, 0], tf.int32), after, output

        after = after_steps(before, tf.shape(events.present)[1], step)
        return {STATE: self._packed.pack(after, is_current)}

    def _next_items(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._module.best_items(self._last(raw[STATE]), self._module.ids(raw[EXCLUDE]))

    def _rank(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        return {SCORE: self._module.scores_of(self._last(raw[STATE]), raw[CANDIDATES])}

    def _events(self, inputs: dict[str, tf.Tensor]) -> Events:
        events = self._model.events(inputs)
        return events._replace(vectors=tf.cast(events.vectors, self._model.encoder.compute_dtype))

    def _empty(self, batch: Any) -> Any:
        state = self._recurrence.initial_state(batch, self._length)
        encoder = self._model.encoder
        last = tf.zeros([batch, self._model.width], encoder.compute_dtype)
        return tf.zeros([batch], tf.int32), state, last

    def _last(self, state: tf.Tensor) -> tf.Tensor:
        """The output at the last event; NaN for a state of another export."""
        (*_, last), is_current = self._packed.unpack(state)
        return tf.where(is_current[:, None], last, np.nan)
