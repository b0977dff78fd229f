"""Relevances of the units of some rows, and what the logits lose as units are taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from pipelines.audit.faithfulness import ATTENTION, LEAVE_ONE_OUT, RANDOM
from pipelines.audit.gradients import Gradients
from pipelines.audit.leave_one_out import Logits, deletion, leave_one_out
from pipelines.audit.units import AllUnits, Inputs, Units, of_events
from recsys_attn.models import RankingModel

Floats = NDArray[np.float64]
GRADIENT, INTEGRATED = "gradient_times_input", "integrated_gradients"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
DRAWS = 3  # random orders


@dataclass(frozen=True)
class Measured:
    """The units of one kind in some rows.

    Attributes:
        names: Of the U units.
        there: Which of them a row has, (rows, U).
        by_method: Relevances, (tasks, rows, U); leaving one out is one of the methods.
        curves: By method and for random order, what the logits lose when `SHARES` of a row's units
            are taken away, the most relevant first, (tasks, rows, shares).
    """

    names: tuple[str, ...]
    there: NDArray[np.bool_]
    by_method: Mapping[str, Floats]
    curves: Mapping[str, Floats]

    @classmethod
    def joined(cls, pieces: Sequence[Measured]) -> Measured:
        """The units of the rows of all pieces."""
        first = pieces[0]
        return replace(
            first,
            there=np.concatenate([piece.there for piece in pieces]),
            by_method={
                name: np.concatenate([piece.by_method[name] for piece in pieces], axis=1)
                for name in first.by_method
            },
            curves={
                name: np.concatenate([piece.curves[name] for piece in pieces], axis=1)
                for name in first.curves
            },
        )


class Measure:
    """Measures the relevance of fields and events for each task's logit.

    Args:
        model: The trained model.
        seed: Seed of random orders.
    """

    def __init__(self, model: RankingModel, seed: int = 0) -> None:
        self._model = model
        self._logits, self._gradients = Logits(model), Gradients(model)
        self._rng = np.random.default_rng(seed)

    def __call__(self, inputs: Inputs) -> tuple[dict[str, Measured], Floats]:
        """Measures the units of some rows with one candidate each.

        Returns:
            The units by kind, and for each task the sums over the rows of what integrated gradients
            miss of `f(x) - f(0)`, and of that itself, by size, (tasks, 2).
        """
        units = AllUnits.of(self._model.schema, inputs)
        whole = self._logits(inputs)
        attention, gradient = self._attention(units), self._gradients.times_input(units)
        integrated, remainder = self._gradients.integrated(units)
        found = {}
        for kind, each in units.by_kind().items():
            by_method = {GRADIENT: gradient[kind], INTEGRATED: integrated[kind]}
            if kind in attention:
                by_method[ATTENTION] = attention[kind]
            found[kind] = self._measured(whole, each, by_method)
        ends = np.stack([remainder, self._gradients.change_from_zeros(units)], axis=-1)
        return found, np.abs(ends).sum(axis=1)

    def _measured(self, whole: Floats, units: Units, by_method: dict[str, Floats]) -> Measured:
        by_method = {LEAVE_ONE_OUT: leave_one_out(self._logits, whole, units), **by_method}
        by_method = {name: each * units.there for name, each in by_method.items()}

        def lost(relevance: Floats) -> Floats:
            return deletion(self._logits, whole, units, relevance, SHARES, self._rng)

        def by_task(relevance: Floats) -> Floats:
            if (relevance == relevance[:1]).all():  # as attention, for which all tasks are one
                return lost(relevance[0])
            return np.stack([lost(one)[index] for index, one in enumerate(relevance)])

        curves = {name: by_task(each) for name, each in by_method.items()}
        draws = self._rng.random((DRAWS, *units.there.shape))
        curves[RANDOM] = np.mean([lost(draw) for draw in draws], axis=0)
        return Measured(units.names, units.there, by_method, curves)

    def _attention(self, units: AllUnits) -> dict[str, Floats]:
        """The weights of the events, those of `explain`."""
        inputs = {name: tf.convert_to_tensor(v) for name, v in units.fields.inputs.items()}
        _, explained = self._model.explain(inputs)
        tasks = len(self._model.schema.tasks)
        return {
            of_events(name): np.stack([events.by_event(weights[:, 0].numpy())] * tasks)
            for name, events in units.events.items()
            if (weights := explained.get(f"attention/{name}")) is not None
        }
