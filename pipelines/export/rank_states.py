"""The signatures of a ranking model whose histories are encoded once for a user."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.export.encoder_state import EncoderState, EncoderSteps, why_no_steps
from pipelines.export.packed_state import (
    RANK_FROM_STATE,
    START,
    STATE,
    STEP,
    PackedState,
    fingerprint,
)
from pipelines.export.serving_module import ServingModule, concrete
from pipelines.export.signatures import ranks
from recsys_attn.models import RankingModel
from recsys_attn.models.encoded_history import EncodedHistory
from recsys_attn.models.tower import Tower
from recsys_attn.schema import is_age

Tensors = dict[str, tf.Tensor]


def why_stateless(model: RankingModel) -> str | None:
    """Returns why a model has no state of a user; None if it has one."""
    if not isinstance(model.tower, Tower):
        return "The weights of the tower are stored in few bits, or it is of another class."
    histories = _encoded(model)
    if not histories:
        return "No history has an encoder that runs once for all candidates."
    if not ranks(model.schema):
        return "The model has no features of candidates."
    if STATE in {feature.column_name for feature in model.schema.features}:
        return f"A column has the name {STATE!r}, which is that of the input of a state."
    for name in histories:
        if any(is_age(sequence) for sequence in model.schema.histories[name]):
            return f"The history {name!r} has the ages of its events, which each request changes."
    return None


class RankStates:
    """Keeps the encoded histories of a user in one vector `state` `(B, D)`.

    `start` takes the events, and the context that their encoders read, and returns `state`;
    `rank_from_state` takes `state` in place of the events of these histories. If every encoder
    goes on event by event, `step` takes `state` and further events `(B, S)`, and returns the state
    after them. Up to `max_length` events the scores are those of `rank`. A step beyond pushes the
    oldest event out, whose traces stay in the others.

    The scores of a state of other weights are NaN, also after further steps.

    Args:
        model: A model for which `why_stateless` has no reason.
        module: Its signatures without a state.
    """

    def __init__(self, model: RankingModel, module: ServingModule) -> None:
        self._model, self._features = model, module.features
        self._specs = module.raw_specs(per_request=True)
        self._histories = _encoded(model)
        sequences = model.schema.histories
        self.longest = {name: sequences[name][0].max_length for name in self._histories}
        encoded = {s.name: s.column_name for name in self._histories for s in sequences[name]}
        self._events = set(encoded.values())
        others = {f.column_name for f in model.schema.features if f.name not in encoded}
        self._replaced = self._events - others
        reasons = [why_no_steps(history) for history in self._histories.values()]
        self.no_steps = next((reason for reason in reasons if reason is not None), None)
        self._steps = {}
        if self.no_steps is None:
            self._steps = {
                name: EncoderSteps(history, self.longest[name])
                for name, history in self._histories.items()
            }
        one = {name: tf.zeros([1, 1], self._specs[name].dtype) for name in self._events}
        self._packed = PackedState(fingerprint(model), self._after(one))

    @property
    def description(self) -> dict[str, Any]:
        """The entry `state` of the manifest."""
        reason = {} if self.no_steps is None else {"no_steps": self.no_steps}
        return {"max_events": self.longest, **reason}

    def signatures(self) -> dict[str, Any]:
        """Concrete functions by signature name."""
        events = {name: self._specs[name] for name in sorted(self._events)}
        contexts = [history.context for history in self._histories.values()]
        names = {name for context in contexts if context is not None for name in context.features}
        columns = {self._model.schema[name].column_name for name in names}
        context = {name: self._specs[name] for name in sorted(columns)}
        others = {name: s for name, s in self._specs.items() if name not in self._replaced}
        state = {STATE: self._packed.spec}
        functions = {
            START: concrete(self._start, {**events, **context}),
            RANK_FROM_STATE: concrete(self._rank, {**state, **others}),
        }
        if self.no_steps is None:
            functions[STEP] = concrete(self._step, {**state, **events})
        return functions

    def _start(self, **raw: tf.Tensor) -> Tensors:
        return {STATE: self._packed.pack(self._after(raw))}

    def _after(self, raw: Tensors) -> dict[str, EncoderState]:
        embedded = self._model.embed(self._features(raw))
        if self.no_steps is None:
            events = self._of_steps(embedded)
            return {name: self._steps[name].start(*events[name]) for name in self._steps}
        return {
            name: EncoderState(
                tf.reduce_sum(tf.cast(encoded.present, tf.int32), axis=1), encoded.events
            )
            for name, encoded in self._model.tower.encode(embedded).items()
        }

    def _step(self, **raw: tf.Tensor) -> Tensors:
        states, is_current = self._packed.unpack(raw.pop(STATE))
        events = self._of_steps(self._model.embed(self._features(raw)))
        after = {name: self._steps[name].step(states[name], *events[name]) for name in states}
        return {STATE: self._packed.pack(after, is_current)}

    def _rank(self, **raw: tf.Tensor) -> Tensors:
        states, is_current = self._packed.unpack(raw.pop(STATE))
        encoded = {name: state.encoded() for name, state in states.items()}
        scores = self._model.probabilities(self._features(raw), encoded)
        return {task: tf.where(is_current[:, None], p, np.nan) for task, p in scores.items()}

    def _of_steps(self, embedded: dict[str, Any]) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """The events and their masks; the transforms have moved missing events to the end."""
        return {
            name: (
                tf.cast(embedded["histories"][name]["events"], history.compute_dtype),
                embedded["histories"][name]["event_mask"],
            )
            for name, history in self._histories.items()
        }


def _encoded(model: RankingModel) -> dict[str, EncodedHistory]:
    histories = model.tower.histories.items()
    return {name: layer for name, layer in histories if isinstance(layer, EncodedHistory)}
