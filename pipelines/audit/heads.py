"""Heads of attention as units: what the logits lose without single ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from pipelines.audit.attention_gradients import PlaceGradients, entries_of_row
from pipelines.audit.leave_one_out import Logits
from pipelines.audit.units import Bools, Inputs, Units
from recsys_attn.attention import HeadsCall
from recsys_attn.models import RankingModel
from recsys_attn.models.attention_places import AttentionPlace, watch_attention
from recsys_attn.schema import Schema

Floats = NDArray[np.float64]
HEADS = "heads"
_GONE = "/gone"  # no feature has this name


@dataclass(frozen=True)
class HeadUnits(Units):
    """The heads of the places of attention that have several; each row has all of them.

    A row without a head has zeros in the place of its output.
    """

    @classmethod
    def of(cls, schema: Schema, inputs: Inputs, attended: list[PlaceGradients]) -> HeadUnits | None:
        """The heads of a model; None if no place has several."""
        names = [
            f"{one.place}, head {head + 1}"
            for one in several(attended)
            for head in range(one.heads.shape[-1])
        ]
        rows = len(next(iter(inputs.values())))
        return (
            cls(schema, inputs, tuple(names), np.ones((rows, len(names)), bool)) if names else None
        )

    def without(self, removed: Bools) -> Inputs:
        return {**self.inputs, _GONE: removed}


def several(attended: list[PlaceGradients]) -> list[PlaceGradients]:
    """The places with several heads."""
    return [one for one in attended if one.heads.shape[-1] > 1]


def side_by_side(arrays: list[Floats], rows: int) -> Floats:
    """Joins arrays (tasks, rows, N) of several places."""
    shapes = [(len(array), rows, array.shape[2]) for array in arrays]
    pairs = zip(arrays, shapes, strict=True)
    return np.concatenate([np.broadcast_to(array, shape) for array, shape in pairs], axis=2)


class HeadLogits(Logits):
    """Logits of rows without some of their heads.

    Args:
        model: The trained model.
    """

    def of_model(self, model: RankingModel, inputs: dict[str, Any]) -> dict[str, tf.Tensor]:
        removed, done = inputs.pop(_GONE), 0

        def visit(place: AttentionPlace, call: HeadsCall) -> HeadsCall:
            nonlocal done
            count = call.output.shape[2]
            if count < 2:
                return call
            factors = tf.cast(~removed[:, done : done + count], call.output.dtype)
            factors = tf.repeat(factors, entries_of_row(call.output, tf.shape(removed)[0]), axis=0)
            done += count
            return call._replace(output=call.output * factors[:, None, :, None])

        with watch_attention(model, visit):
            return model(inputs, training=False)
