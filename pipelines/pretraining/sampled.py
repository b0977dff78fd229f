"""Metrics of next items among drawn items, as many papers report them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.items.feature_table import ABSENT
from pipelines.items.sampler import Sampler
from pipelines.metrics.next_items import NextItems, sampled_places
from recsys_attn.schema import RESERVED_IDS

PREFIX = "sampled_"
SAMPLED_WARNING = (
    "Sampled metrics rank the next item among a few drawn items. They cannot be compared with "
    "metrics over the whole catalogue, and may order models differently (Krichene and Rendle, KDD "
    '2020, "On sampled metrics for item recommendation").'
)
Integers = NDArray[np.integer[Any]]


class SampledItems:
    """Metrics of each row's target among drawn items that it is compared with.

    The draws of a row follow from the seed and the row's number, so that every model is compared
    with the same items and batches change nothing.

    Args:
        at: The values of k.
        counts: How often each id occurs in the train rows `(V,)`.
        negatives: Number of items to draw for each row. There are fewer where fewer are left.
        by: `"uniform"`, or `"popularity"`: in proportion to the counts.
        seed: The seed of the draws.

    Source: Krichene and Rendle, "On sampled metrics for item recommendation", KDD 2020.

    Example:
        >>> found = SampledItems([1], np.array([0, 0, 3, 2, 1]), 2, "uniform", seed=0)
        >>> found.add(np.array([[0, 0, 0.9, 0.1, 0.4]]), np.array([2]), np.array([[-1]]))
        >>> found.metrics()["sampled_hr@1"]
        1.0
    """

    def __init__(
        self,
        at: Sequence[int],
        counts: NDArray[Any],
        negatives: int,
        by: Literal["uniform", "popularity"],
        seed: int,
    ) -> None:
        items = np.arange(RESERVED_IDS, len(counts), dtype="int32")
        if by == "popularity":
            items = items[counts[items] > 0]
        weights = counts[items].astype("float64") if by == "popularity" else None
        self._sampler, self._negatives, self._seed = Sampler(items, weights), negatives, seed
        self._found = NextItems(at)

    def add(self, scores: NDArray[np.floating[Any]], targets: Integers, excluded: Integers) -> None:
        """Adds the next rows.

        Args:
            scores: Scores of all ids `(B, V)`.
            targets: Ids of the next items `(B,)`.
            excluded: Ids that are not drawn, such as seen items, `(B, any)`, filled up with -1.
        """
        drawn = self.draw(self._found.rows, targets, excluded)
        self._found.add(*sampled_places(scores, targets, drawn), None, targets)

    def draw(self, first: int, targets: Integers, excluded: Integers) -> Integers:
        """Returns ids `(B, negatives)` for the rows from number `first` on, filled up with -1."""
        drawn = np.full((len(targets), self._negatives), ABSENT, "int32")
        for row, others in enumerate(np.concatenate([targets[:, None], excluded], axis=1)):
            rng = np.random.default_rng([self._seed, first + row])
            drawn[row] = self._sampler.draw(rng, others[None], self._negatives)[0]
        return drawn

    def metrics(self) -> dict[str, float | None]:
        """Returns the metrics by name, as `sampled_ndcg@10`."""
        return {PREFIX + name: value for name, value in self._found.metrics().items()}

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Returns the ends of the 95 % interval of each mean, as of `NextItems`."""
        return {PREFIX + name: ends for name, ends in self._found.intervals().items()}
