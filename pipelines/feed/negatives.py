"""Negatives drawn from the item table for the requests of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from pipelines.feed.batch_layout import ITEM_ROWS, LABELS, SEEN_ROWS, Arrays
from pipelines.feed.catalogue import ItemCatalogue
from pipelines.items import Sampler
from pipelines.items.feature_table import ABSENT
from recsys_attn.schema import CANDIDATE_MASK

DrawsBy = Literal["uniform", "popularity", "batch"]


@dataclass(frozen=True)
class Negatives:
    """Adds drawn candidates to each request.

    A drawn candidate is different from all others of its request, and, where the catalogue has
    them, from the events of its histories. Its labels are 0; those of a task with a mask are
    unknown.

    Args:
        catalogue: All items.
        count: Candidates to draw for each request; fewer where the catalogue has no more.
        by: `"uniform"`; `"popularity"`: by (1 + positives of the train rows) ** 0.75; `"batch"`:
            positives of the other requests of the shard's batch.
        seed: Seed of the draws.
    """

    catalogue: ItemCatalogue
    count: int
    by: DrawsBy
    seed: int

    def add(self, blocks: Arrays, parts: Sequence[tuple[tuple[int, ...], int]]) -> np.ndarray:
        """Adds the candidates to a batch, and removes the blocks with rows of the item table.

        Args:
            blocks: The batch, with room for `count` more candidates after the longest request's.
            parts: For consecutive requests, as many as given: what their draws follow from.

        Returns:
            Which candidates were drawn `(B, T)`.
        """
        items, seen = blocks.pop(ITEM_ROWS)[..., 0], blocks.pop(SEEN_ROWS, None)
        mask = blocks[CANDIDATE_MASK]
        excluded = np.where(mask, items, ABSENT)
        excluded = excluded if seen is None else np.concatenate([excluded, seen], axis=1)
        rows = np.full((len(mask), self.count), ABSENT, "int32")
        begin = 0
        for seeds, requests in parts:
            place = slice(begin, begin + requests)
            rng = np.random.default_rng([self.seed, *seeds, 1])  # no stream of the order's
            sampler = self._sampler or Sampler.of_batch(_positives(blocks, excluded, place))
            rows[place] = sampler.draw(rng, excluded[place], self.count)
            begin += requests
        return self._put(blocks, rows)

    @cached_property
    def _sampler(self) -> Sampler | None:
        """The sampler of all batches, if there is one."""
        items = self.catalogue.items
        return {
            "uniform": lambda: Sampler.uniform(items),
            "popularity": lambda: Sampler.by_popularity(items),
            "batch": lambda: None,
        }[self.by]()

    @cached_property
    def _label(self) -> np.ndarray:
        """The labels of a drawn candidate, by task."""
        tasks = self.catalogue.fitted.schema.tasks
        return np.array([0.0 if task.mask is None else np.nan for task in tasks], "float32")

    def _put(self, blocks: Arrays, rows: np.ndarray) -> np.ndarray:
        mask = blocks[CANDIDATE_MASK]
        request, column = np.nonzero(rows != ABSENT)
        place = mask.sum(axis=1)[request] + column
        items = rows[request, column]
        for name, block in self.catalogue.blocks.items():
            blocks[name][request, place] = block.take(items, axis=0)
        blocks[LABELS][request, place] = self._label
        drawn = np.zeros(mask.shape, bool)
        drawn[request, place] = True
        blocks[CANDIDATE_MASK] = mask | drawn
        return drawn


def _positives(blocks: Arrays, items: np.ndarray, place: slice) -> np.ndarray:
    """Rows of the item table of some requests' positives."""
    labels = blocks[LABELS][place]
    is_positive = (labels == 1).any(axis=-1) & blocks[CANDIDATE_MASK][place]
    return items[place, : labels.shape[1]][is_positive]
