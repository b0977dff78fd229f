"""The objective of segments: which segment is missing from a history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number
from recsys_attn.masked_mean import masked_mean
from recsys_attn.objectives.base import (
    OBJECTIVES,
    Inputs,
    Loss,
    Objective,
    require_both_directions,
)
from recsys_attn.schema import PADDING_ID
from recsys_attn.tensors import Tensor


@OBJECTIVES.register("segment")
class Segment(Objective):
    """Tells a hidden segment of a history from that of another user, as S3-Rec.

    `loss = softplus(c W s' - c W s)`, with the mean state c of the history whose segment is hidden,
    s of that segment alone, and s' of the segment of another row of the batch. Histories of fewer
    than three events teach nothing.

    Source: Zhou et al., "S3-Rec", CIKM 2020, arXiv 2008.07873, section 4.2.4; theirs is the
    contrast of all segments of a batch by noise contrastive estimation.

    Args:
        share: Largest share of a history's events in the segment.
        weight: Factor of the loss in the sum of all objectives; the paper takes 0.5.

    Raises:
        ValueError: The encoder is causal.

    Example:

    >>> from recsys_attn.objectives import Segment
    >>> Segment(share=0.4).share
    0.4
    """

    by_row = False

    def __init__(self, *, share: float = 0.5, weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(weight=weight, **kwargs)
        require_number("share", share, above=0, below=1)
        self.share = share
        self.bilinear: Any = None
        self.draws = keras.random.SeedGenerator()

    def require_fit(self, model: Any) -> None:
        require_both_directions(model, "segment")

    def prepare(self, model: Any, sizes: Mapping[str, int]) -> None:
        self.bilinear = keras.layers.Dense(model.width, use_bias=False, dtype="float32")
        self.bilinear.build((None, model.width))

    def call(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        events = model.events(inputs)
        count = ops.sum(ops.cast(events.present, "int32"), axis=1, keepdims=True)
        begin, size = self.part(count)
        places = ops.arange(ops.shape(events.present)[1], dtype="int32")[None]
        inside = ops.logical_and(places >= begin, places < begin + size)
        vectors = model.masked(events.vectors, inside)
        states = model.encode(events._replace(vectors=vectors), training=True)
        context = masked_mean(ops.cast(states, "float32"), events.present)[:, 0]
        moved = ops.minimum(places + begin, ops.shape(places)[1] - 1)
        alone = {
            feature.name: ops.where(
                places < size,
                ops.take_along_axis(ops.cast(inputs[feature.name], "int32"), moved, axis=1),
                PADDING_ID,
            )
            for feature in model.sequences
        }
        segment = model.events(alone)
        states = ops.cast(model.encode(segment, training=True), "float32")
        summary = masked_mean(states, segment.present)[:, 0]
        other = ops.roll(summary, 1, axis=0)
        valid = ops.logical_and(count[:, 0] > 2, ops.roll(count[:, 0], 1, axis=0) > 2)
        query = self.bilinear(context)
        margin = ops.sum(query * (summary - other), axis=-1)
        counted = ops.cast(ops.logical_and(valid, ops.shape(valid)[0] > 1), "float32")
        return Loss(ops.sum(ops.softplus(-margin) * counted), ops.sum(counted))

    def part(self, count: Tensor) -> tuple[Tensor, Tensor]:
        """Returns begin and size (B, 1) of a drawn segment, which is not the whole history."""
        number = ops.cast(count, "float32")
        drawn = keras.random.uniform(ops.shape(count), dtype="float32", seed=self.draws)
        size = ops.maximum(ops.cast(drawn * self.share * number, "int32"), 1)
        drawn = keras.random.uniform(ops.shape(count), dtype="float32", seed=self.draws)
        begin = ops.cast(drawn * ops.cast(count - size + 1, "float32"), "int32")
        return ops.minimum(begin, ops.maximum(count - size, 0)), size
