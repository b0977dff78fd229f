"""The objective of order: which of two sessions came first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.masked_mean import masked_mean
from recsys_attn.objectives.base import OBJECTIVES, Inputs, Loss, Objective
from recsys_attn.schema import PADDING_ID
from recsys_attn.tensors import Tensor


@OBJECTIVES.register("session_order")
class SessionOrder(Objective):
    """Says whether two following sessions stand in their order or were swapped, as ALBERT.

    Two sessions of a history that follow each other are drawn, and swapped with the probability
    1/2: `loss = cross-entropy of sigmoid(w . mean of states + b)`. Places are those of the two, and
    times are left out, so that neither shows the order. Histories of one session teach nothing. It
    has no score of items: use it beside another objective, or for an encoder.

    Source: Lan et al., "ALBERT: A Lite BERT for Self-supervised Learning of Language
    Representations", ICLR 2020, arXiv 1909.11942, section 3.1.

    Args:
        session: The sequence with the number of each event's session; the model does not see it.
        weight: Factor of the loss in the sum of all objectives.

    Raises:
        ValueError: The inputs have no such sequence.

    Example:

    >>> from recsys_attn.objectives import SessionOrder
    >>> SessionOrder(weight=0.5).session
    'session'
    """

    def __init__(self, *, session: str = "session", weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(weight=weight, **kwargs)
        self.session = session
        self.classifier = keras.layers.Dense(1, dtype="float32")
        self.draws = keras.random.SeedGenerator()

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.session,)

    def prepare(self, model: Any, sizes: Mapping[str, int]) -> None:
        self.classifier.build((None, model.width))

    def call(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        first, second, valid = self.pair(ops.cast(inputs[self.session], "int32"))
        rows = ops.shape(valid)[0]
        swapped = keras.random.uniform((rows, 1), dtype="float32", seed=self.draws) < 0.5
        # Sorting by these keys moves the two sessions to the front, perhaps swapped.
        key = ops.where(first, ops.where(swapped, 1, 0), ops.where(second, 1, 2))
        key = ops.where(ops.logical_and(second, swapped), 0, key)
        length = ops.shape(key)[1]
        order = ops.argsort(key * length + ops.arange(length, dtype="int32")[None], axis=1)
        present = ops.take_along_axis(ops.logical_or(first, second), order, axis=1)
        features = {}
        for feature in model.sequences:
            ids = ops.take_along_axis(ops.cast(inputs[feature.name], "int32"), order, axis=1)
            features[feature.name] = ops.where(present, ids, PADDING_ID)
        events = model.events(features)
        if events.times is not None:
            events = events._replace(times=ops.zeros_like(events.times))
        states = ops.cast(model.encode(events, training=True), "float32")
        vector = masked_mean(states, events.present)[:, 0]
        logits = self.classifier(vector)[:, 0]
        label = ops.cast(swapped[:, 0], "float32")
        counted = ops.cast(valid, "float32")
        losses = ops.softplus(logits) - label * logits
        return Loss(ops.sum(losses * counted), ops.sum(counted))

    def pair(self, session: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the events (B, S) of two following sessions, and which rows (B,) have two."""
        present = ops.not_equal(session, PADDING_ID)
        before = ops.pad(session, ((0, 0), (1, 0)))[:, :-1]
        number = ops.cumsum(ops.cast(ops.not_equal(session, before), "int32"), axis=1)
        last = ops.max(ops.where(present, number, 0), axis=1, keepdims=True)
        drawn = keras.random.uniform(ops.shape(last), dtype="float32", seed=self.draws)
        chosen = 1 + ops.cast(drawn * ops.cast(ops.maximum(last - 1, 1), "float32"), "int32")
        chosen = ops.minimum(chosen, ops.maximum(last - 1, 1))
        first = ops.logical_and(present, number == chosen)
        second = ops.logical_and(present, number == chosen + 1)
        return first, second, last[:, 0] > 1
