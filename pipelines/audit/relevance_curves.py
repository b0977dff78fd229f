"""Relevances of the units of some rows, and what the logits lose as units are taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from pipelines.audit.attention_gradients import (
    AttentionGradients,
    PlaceGradients,
    chefer,
    field_attention,
)
from pipelines.audit.conserving import conserving
from pipelines.audit.faithfulness import ATTENTION, LEAVE_ONE_OUT, RANDOM
from pipelines.audit.gradients import Gradients
from pipelines.audit.heads import HEADS, HeadLogits, HeadUnits, several, side_by_side
from pipelines.audit.leave_one_out import Logits, deletion, leave_one_out
from pipelines.audit.units import FIELDS, AllUnits, Inputs, Units, of_events
from recsys_attn.models import RankingModel

Floats = NDArray[np.float64]
GRADIENT, INTEGRATED, CHEFER = "gradient_times_input", "integrated_gradients", "chefer"
SIZES, PROPAGATED = "gradient_sizes", "lrp"
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
        propagate: Whether to add layer-wise relevance propagation.
    """

    def __init__(self, model: RankingModel, seed: int = 0, propagate: bool = False) -> None:
        self._model = model
        self._logits, self._head_logits = Logits(model), HeadLogits(model)
        self._gradients = Gradients(model)
        self._through_attention = AttentionGradients(model)
        self._propagated = Gradients(model, conserving) if propagate else None
        self._propagated_heads = AttentionGradients(model, conserving) if propagate else None
        self._rng = np.random.default_rng(seed)

    def __call__(self, inputs: Inputs) -> tuple[dict[str, Measured], dict[str, Floats]]:
        """Measures the units of some rows with one candidate each.

        Returns:
            The units by kind; and for each method whose relevances have a known sum, what they miss
            of it and the sum itself, both by size and summed over the rows, (tasks, 2).
        """
        units, whole = AllUnits.of(self._model.schema, inputs), self._logits(inputs)
        attended = self._through_attention(units)
        methods = {GRADIENT: self._gradients.times_input(units)[0]}
        methods[INTEGRATED], remainder = self._gradients.integrated(units)
        sums = {INTEGRATED: (remainder, self._gradients.change_from_zeros(units))}
        if self._propagated is not None:
            methods[PROPAGATED], total = self._propagated.times_input(units)
            sums[PROPAGATED] = whole - total, whole
        methods[CHEFER] = chefer(self._model, units, attended)
        methods[ATTENTION] = self._attention(units, attended)
        results = {}
        for kind, units_of_kind in units.by_kind().items():
            by_method = {name: of[kind] for name, of in methods.items() if kind in of}
            results[kind] = self._measured(self._logits, whole, units_of_kind, by_method)
        heads = HeadUnits.of(self._model.schema, inputs, attended)
        if heads is not None:
            by_method = self._of_heads(units, attended)
            results[HEADS] = self._measured(self._head_logits, whole, heads, by_method)
        return results, {n: np.abs(np.stack(both, -1)).sum(axis=1) for n, both in sums.items()}

    def _of_heads(self, units: AllUnits, attended: list[PlaceGradients]) -> dict[str, Floats]:
        """The relevances of the heads of all places, side by side."""
        places, rows = several(attended), len(units.fields.there)
        relevances = {
            GRADIENT: side_by_side([one.heads for one in places], rows),
            SIZES: side_by_side([one.sizes for one in places], rows),
        }
        if self._propagated_heads is not None:
            places = several(self._propagated_heads(units))
            relevances[PROPAGATED] = side_by_side([one.heads for one in places], rows)
        return relevances

    def _measured(
        self, logits: Logits, whole: Floats, units: Units, by_method: dict[str, Floats]
    ) -> Measured:
        by_method = {LEAVE_ONE_OUT: leave_one_out(logits, whole, units), **by_method}
        by_method = {name: relevances * units.there for name, relevances in by_method.items()}

        def lost(relevance: Floats) -> Floats:
            return deletion(logits, whole, units, relevance, SHARES, self._rng)

        def by_task(relevance: Floats) -> Floats:
            if (relevance == relevance[:1]).all():  # as attention, for which all tasks are one
                return lost(relevance[0])
            return np.stack([lost(one)[index] for index, one in enumerate(relevance)])

        curves = {name: by_task(relevances) for name, relevances in by_method.items()}
        draws = self._rng.random((DRAWS, *units.there.shape))
        curves[RANDOM] = np.mean([lost(draw) for draw in draws], axis=0)
        return Measured(units.names, units.there, by_method, curves)

    def _attention(self, units: AllUnits, attended: list[PlaceGradients]) -> dict[str, Floats]:
        """The weights of the events, those of `explain`, and of the fields, for every task."""
        inputs = {name: tf.convert_to_tensor(v) for name, v in units.fields.inputs.items()}
        _, explained = self._model.explain(inputs)
        relevances = {
            of_events(name): events.by_event(weights[:, 0].numpy())
            for name, events in units.events.items()
            if (weights := explained.get(f"attention/{name}")) is not None
        }
        of_fields = field_attention(self._model, units, attended)
        if of_fields is not None:
            relevances[FIELDS] = of_fields
        tasks = len(self._model.schema.tasks)
        return {
            kind: np.broadcast_to(attention, (tasks, *attention.shape))
            for kind, attention in relevances.items()
        }
