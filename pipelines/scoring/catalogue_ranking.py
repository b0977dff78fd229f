"""Ranks all items of a catalogue for each context, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.feed import Arrays, Batch, ItemCatalogue, Layout
from pipelines.feed.chunk import fill
from pipelines.items import ItemTable
from pipelines.scoring.scorer import Scorer
from recsys_attn.models import RankingModel
from recsys_attn.schema import CANDIDATE_MASK

_ITEMS = 2048  # items at once: the context of a request is computed once for so many
_CANDIDATES = 65_536  # scores at once


@dataclass(frozen=True)
class CatalogueRanking:
    """Scores every item of a catalogue for each context, and keeps the best.

    Args:
        scorer: Scores candidates.
        task: Task whose scores rank.
        catalogue: The encoded items.
    """

    scorer: Scorer
    task: str
    catalogue: ItemCatalogue

    @classmethod
    def of(cls, fitted: FittedFeatures, model: RankingModel, task: str, unseen: bool) -> Self:
        """The ranking of the transforms' item table.

        Raises:
            PipelineError: The item table lacks a feature of the candidates.
        """
        if fitted.items is None:
            raise PipelineError("A catalogue needs the table `data.items` in the experiment.")
        names = fitted.items.table.column_names
        for feature in fitted.schema.features:
            if feature.side == "candidate" and feature.column_name not in names:
                raise PipelineError(
                    f"The catalogue lacks the column {feature.column_name!r} of a candidate "
                    f"feature. Give a file that has it. Columns: {', '.join(names)}."
                )
        return cls(Scorer(model), task, ItemCatalogue(fitted.items, fitted, unseen))

    @property
    def items(self) -> ItemTable:
        """The items."""
        return self.catalogue.items

    def best(self, contexts: pa.Table, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The best `k` items of each context.

        Args:
            contexts: Raw context features, a row per request.
            k: Number of items.

        Returns:
            Rows of the catalogue and scores `(B, k)`, best first; -inf where there are no more.
        """
        layout = Layout.of(self.catalogue.fitted.schema, labelled=False)
        blocks = layout.empty(len(contexts))
        fill(blocks, layout, 0, self.catalogue.fitted.columns(contexts, "context"))
        names = layout.blocks_of("context")
        seen = self.catalogue.seen(contexts)
        at_once = max(1, _CANDIDATES // min(_ITEMS, len(self.items)))
        parts = [
            self._best(
                {name: blocks[name][begin : begin + at_once] for name in names},
                seen[begin : begin + at_once],
                layout,
                k,
            )
            for begin in range(0, len(contexts), at_once)
        ]
        rows, scores = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(scores)

    def _best(
        self, context: Arrays, seen: np.ndarray, layout: Layout, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        requests = len(seen)
        rows, scores = np.empty((requests, 0), "int32"), np.empty((requests, 0), "float32")
        for begin in range(0, len(self.items), _ITEMS):
            part = slice(begin, min(begin + _ITEMS, len(self.items)))
            count = part.stop - part.start
            candidates = {
                name: np.broadcast_to(block[part], (requests, count, block.shape[1]))
                for name, block in self.catalogue.blocks.items()
            }
            mask = {CANDIDATE_MASK: np.ones((requests, count), bool)}
            of_part = self.scorer.score(Batch({**context, **candidates, **mask}, layout))[self.task]
            of_part = of_part.reshape(requests, count)
            request, event = np.nonzero((seen >= part.start) & (seen < part.stop))
            of_part[request, seen[request, event] - begin] = -np.inf
            number = np.broadcast_to(np.arange(begin, part.stop, dtype="int32"), of_part.shape)
            rows = np.concatenate([rows, number], axis=1)
            scores = np.concatenate([scores, of_part], axis=1)
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            rows = np.take_along_axis(rows, order, axis=1)
            scores = np.take_along_axis(scores, order, axis=1)
        return rows, scores
