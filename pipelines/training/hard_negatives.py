"""Hard negatives: of the drawn candidates, those that the model scores highest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipelines.feed import LENGTHS, Arrays, Batch
from pipelines.feed.batch import BatchSize
from pipelines.scoring.scorer import Scorer
from recsys_attn.models import RankingModel
from recsys_attn.schema import CANDIDATE_MASK


@dataclass(frozen=True)
class HardNegatives:
    """Keeps the drawn candidates with the highest scores, and all others of a request.

    Args:
        model: The model in training.
        task: Task whose scores count.
        count: Drawn candidates to keep for each request.
    """

    model: RankingModel
    task: str
    count: int

    @cached_property
    def _scorer(self) -> Scorer:
        return Scorer(self.model)

    def __call__(self, batch: Batch) -> Arrays:
        """The blocks of a batch with fewer drawn candidates."""
        mask, drawn = batch.blocks[CANDIDATE_MASK], batch.drawn
        if drawn is None:
            return batch.blocks
        scores = np.full(mask.shape, -np.inf, "float32")
        scores[mask] = self._scorer.score(batch)[self.task]
        # Own candidates first, then drawn ones by their score, then padding.
        rank = np.where(drawn, -scores, np.where(mask, -np.inf, np.inf))
        order = np.argsort(rank, axis=1, kind="stable")
        counts = (mask & ~drawn).sum(axis=1)
        length = int(BatchSize(1, lengths=LENGTHS, drawn=self.count).padded(counts.max(initial=1)))
        order = order[:, :length]
        chosen = np.take_along_axis(mask, order, axis=1)
        chosen &= np.arange(order.shape[1]) < counts[:, None] + self.count
        context = batch.layout.blocks_of("context")
        blocks = {
            name: block if name in context else np.take_along_axis(block, order[..., None], axis=1)
            for name, block in batch.blocks.items()
            if name != CANDIDATE_MASK
        }
        return {**blocks, CANDIDATE_MASK: chosen}
