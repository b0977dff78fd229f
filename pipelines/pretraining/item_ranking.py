"""Ranks the whole catalogue for histories, by a model or a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.metrics.next_items import ABSENT, NextItems, best, target_places
from pipelines.pretraining.evaluated_histories import EvaluatedHistories
from pipelines.pretraining.sampled import SampledItems
from pipelines.training.stopping import diverged
from recsys_attn.models import SequenceModel
from recsys_attn.schema import RESERVED_IDS

Scores = Callable[[EvaluatedHistories], np.ndarray]  # (B, size), of all ids
NUMBERS = 2**24  # scores at a time, 64 MB


class ModelScores:
    """The scores of all ids `(B, size)` by a sequence model.

    Args:
        model: The model.
    """

    def __init__(self, model: SequenceModel) -> None:
        self._model = model
        # One trace for histories of all lengths.
        specs = {
            feature.name: tf.TensorSpec([None, None], "int32") for feature in model.schema.features
        }
        self._function = tf.function(self._scores, autograph=False, input_signature=[specs])

    def __call__(self, histories: EvaluatedHistories) -> np.ndarray:
        present = np.any([x != 0 for x in histories.inputs.values()], axis=0)
        longest = max(1, int(present.sum(axis=1).max(initial=0)))
        inputs = {
            feature.name: tf.convert_to_tensor(histories.inputs[feature.name][:, :longest])
            for feature in self._model.schema.features
        }
        scores = self._function(inputs).numpy()
        if not np.isfinite(scores).all():
            raise diverged("scores of items are not finite")
        return scores

    def _scores(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        return self._model.scores(self._model.next_states(inputs, training=False))


def rows_at_once(size: int) -> int:
    """Users whose scores fit the memory, of a catalogue of `size` ids."""
    return max(1, min(512, NUMBERS // size))


def rank(
    histories: Iterable[EvaluatedHistories],
    scores: Scores,
    at: tuple[int, ...],
    size: int,
    filter_seen: bool,
    sampled: SampledItems | None = None,
    advance: Callable[[int], Any] = lambda rows: None,
) -> NextItems:
    """Returns the metrics of the places of the next items.

    Args:
        histories: The users.
        scores: Scores all ids for some users.
        at: Numbers of places.
        size: Number of ids, the reserved ones included.
        filter_seen: Whether items of the history do not rank: such a next item is missed.
        sampled: Collects the places among drawn items too; None for no such metrics.
        advance: Called with numbers of users that are done.
    """
    metrics = NextItems(at, size)
    for users in histories:
        values = scores(users)
        excluded = users.seen if filter_seen else users.seen[:, :0]
        is_known = users.targets >= RESERVED_IDS
        is_out = (excluded == users.targets[:, None]).any(axis=1) & is_known
        targets = np.where(is_out, ABSENT, users.targets)
        above, equal = target_places(values, targets, excluded)
        metrics.add(above, equal, best(values, max(at), excluded)[0], targets)
        if sampled is not None:
            sampled.add(values, targets, users.seen)
        advance(len(users.targets))
    return metrics
