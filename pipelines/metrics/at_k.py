"""Metrics of the first k places of each request's list: HR, NDCG, MRR and MAP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.metrics.metric_inputs import Floats, check_pairs, check_shape
from pipelines.metrics.ranked import Ranked, run_starts

AT_K = ("hr", "ndcg", "mrr", "map")
_UNITS = 2**44
_BLOCK = 2**18  # rows whose units fit 64 bits together


class MeansAtK:
    """Means over requests, of which some may be added at a time, in bounded memory.

    The sums are integers, in units of 2^-44, so that they are the same in any order.

    - `hr@k`: whether a positive is in the first k places;
    - `ndcg@k`: `sum_(places i <= k) y_i / log2(1 + i)`, divided by its largest possible value;
    - `mrr@k`: `1 / i` of the first positive, 0 if it is not in the first k places;
    - `map@k`: `1 / min(P, k) * sum_(i <= k) y_i * (share of positives in the first i places)`, with
      P positives.

    Candidates of equal scores have no order: each metric is its expected value over all their
    orders. So equal scores for all candidates give the metrics of a random order. Candidates with
    an unknown label (nan) are left out, then requests without a positive or without a negative,
    whose order cannot be right or wrong.

    Args:
        at: The values of k.

    Example:
        >>> top = MeansAtK([1, 2])
        >>> top.add([1, 0, 0, 0, 1], [0.9, 0.5, 0.1, 0.8, 0.3], requests=[7, 7, 7, 8, 8])
        >>> [top.metrics()[name] for name in ("hr@1", "hr@2", "mrr@2")]
        [0.5, 1.0, 0.75]
    """

    def __init__(self, at: Sequence[int]) -> None:
        if not at or min(at) < 1:
            raise ValueError(f"`at` must name positive numbers of places. Received: at={list(at)}")
        self._at = tuple(at)
        self._sums = {f"{name}@{k}": 0 for name in AT_K for k in at}
        self.requests = 0  # that count

    def add(self, labels: ArrayLike, scores: ArrayLike, requests: ArrayLike) -> None:
        """Adds whole requests.

        Args:
            labels: 0, 1, or nan for unknown, shape (rows,).
            scores: A number per row, of which a higher one comes first, shape (rows,).
            requests: Number of each row's request, shape (rows,).
        """
        label = np.asarray(labels, np.float64)
        known = ~np.isnan(label)
        named = check_shape("requests", np.asarray(requests), label)[known]
        values = check_shape("scores", np.asarray(scores), label)[known]
        y, z = check_pairs(label[known], values)
        codes = np.unique(named, return_inverse=True)[1]
        positives, sizes = np.bincount(codes, y), np.bincount(codes)
        counted = (positives > 0) & (positives < sizes)
        in_counted = counted[codes]
        if not in_counted.any():
            return
        places = _places(y[in_counted], z[in_counted], (np.cumsum(counted) - 1)[codes[in_counted]])
        self.requests += int(counted.sum())
        for k in self._at:
            for name, value in places.sums(k, positives[counted]).items():
                self._sums[f"{name}@{k}"] += value

    def merged(self, other: MeansAtK) -> MeansAtK:
        """The means over the requests of both, which have the same `at`."""
        means = MeansAtK(self._at)
        means.requests = self.requests + other.requests
        means._sums = {name: value + other._sums[name] for name, value in self._sums.items()}
        return means

    def metrics(self) -> dict[str, float | None]:
        """The means by name, as `ndcg@10`; None if no request counts."""
        whole = self.requests * _UNITS
        return {name: value / whole if whole else None for name, value in self._sums.items()}


class _Places(NamedTuple):
    """The places of all lists, each of shape (rows,), with expected values over ties."""

    request: NDArray[np.intp]
    rank: Floats  # from 1
    positive: Floats  # probability of a positive at this place
    first: Floats  # probability of the first positive
    precision: Floats  # expected value of y_i times the share of positives up to here

    def sums(self, k: int, positives: NDArray[Any]) -> dict[str, int]:
        """Sums of the metrics over the requests, in units."""
        inside = self.rank <= k
        request, rank = self.request[inside], self.rank[inside]
        best = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))])
        most = np.minimum(positives, k).astype(int)
        return {
            "hr": _units(self.first[inside]),
            "ndcg": _units(self.positive[inside] / np.log2(rank + 1) / best[most[request]]),
            "mrr": _units(self.first[inside] / rank),
            "map": _units(self.precision[inside] / most[request]),
        }


def _units(values: Floats) -> int:
    """The sum of numbers from 0 to 1, exact once each is rounded to a unit."""
    rounded = np.rint(values * _UNITS).astype(np.int64)
    starts = range(0, values.size, _BLOCK)
    return sum(map(int, np.add.reduceat(rounded, starts))) if values.size else 0


def _places(labels: Floats, scores: NDArray[np.number], request: NDArray[np.intp]) -> _Places:
    """Sorts each request by falling score and computes the expected values within ties."""
    ranked = Ranked.of(labels, -scores.astype(np.float64))
    within = ranked.within(request)
    sizes, of_tie = within.rows, ranked.groups_of(within)
    start = np.cumsum(sizes) - sizes  # first row of each tie
    earlier = np.cumsum(within.positive) - within.positive  # positives before it
    firsts = run_starts(of_tie)
    first_tie = np.repeat(firsts, np.diff(firsts, append=of_tie.size))  # of the tie's request
    spread = (of_tie, start, start[first_tie], sizes, within.positive, earlier - earlier[first_tie])
    request, tied, begin, size, inside, before = (np.repeat(values, sizes) for values in spread)
    rows = np.arange(request.size)
    place = rows - tied  # in the tie, from 0
    rank = (rows - begin + 1).astype(np.float64)
    # Drawn one by one, no positive is among the first `place` of a tie with the probability
    # prod_(t < place) (size - inside - t) / (size - t), a ratio of factorials, and then this one is
    # with inside / (size - place).
    left = size - inside - place
    logs = np.cumsum(np.log(np.maximum(np.arange(sizes.max() + 1), 1)))  # of the factorials
    none = np.exp(logs[size - inside] - logs[np.maximum(left, 0)] + logs[size - place] - logs[size])
    first = np.where((before == 0) & (left >= 0), none * inside / (size - place), 0.0)
    share = inside / size
    others = place * (inside - 1) / np.maximum(size - 1, 1)
    return _Places(request, rank, share, first, share * (before + 1 + others) / rank)
