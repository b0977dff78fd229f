"""The scores of a model without some of its heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from pipelines.feed.batch import BatchSize, assemble
from pipelines.feed.chunk import Chunk
from pipelines.feed.tensors import block_specs, block_tensors
from recsys_attn.attention import HeadsCall
from recsys_attn.models import RankingModel
from recsys_attn.models.attention_places import AttentionPlace, watch_attention
from recsys_attn.schema import CANDIDATE_MASK

Scores = dict[str, NDArray[Any]]
SIZE = BatchSize(1024)


class WithoutHeads:
    """Scores rows with some heads set to zero.

    Args:
        model: The model.
        chunk: The rows.
        heads: Number of heads of each place.
    """

    def __init__(
        self, model: RankingModel, chunk: Chunk, heads: Mapping[AttentionPlace, int]
    ) -> None:
        self._model, self._chunk, self._heads = model, chunk, heads
        masks = [tf.TensorSpec([count], tf.float32) for count in heads.values()]
        specs = [block_specs(chunk.layout), masks]
        self._compiled = tf.function(self._probabilities, input_signature=specs, autograph=False)
        cuts = SIZE.cut(np.diff(chunk.starts))
        pieces = ((chunk, np.arange(*bounds)) for bounds in cuts)
        self._batches = [assemble([piece], SIZE) for piece in pieces]

    def __call__(self, removed: Mapping[AttentionPlace, Sequence[int]]) -> Scores:
        """The scores of all rows by task, without the removed heads of some places."""
        masks = [np.ones(count, "float32") for count in self._heads.values()]
        for mask, place in zip(masks, self._heads, strict=True):
            mask[list(removed.get(place, ()))] = 0
        outputs = []
        for blocks in self._batches:
            scores = self._compiled(block_tensors(blocks), masks)
            is_candidate = blocks[CANDIDATE_MASK]
            outputs.append({task: score.numpy()[is_candidate] for task, score in scores.items()})
        return {task: np.concatenate([output[task] for output in outputs]) for task in outputs[0]}

    def _probabilities(
        self, blocks: Mapping[str, tf.Tensor], masks: Sequence[tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        by_place = dict(zip(self._heads, masks, strict=True))

        def visit(place: AttentionPlace, call: HeadsCall) -> HeadsCall:
            if place not in by_place:
                return call
            mask = tf.cast(by_place[place], call.output.dtype)[:, None]
            # The strength of an interest is the sum of the weights.
            weights = call.weights * mask[..., None] if tf.is_tensor(call.weights) else call.weights
            return call._replace(output=call.output * mask, weights=weights)

        with watch_attention(self._model, visit):
            return self._model.probabilities(self._chunk.layout.inputs(blocks))
