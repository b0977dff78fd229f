"""Metrics of one next item per row, ranked among a whole catalogue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import Z
from pipelines.metrics.metric_inputs import check_scores
from recsys_attn.schema import RESERVED_IDS

ABSENT = -1  # fills up rows of ids
MEANS = {"hr": "hr", "ndcg": "ndcg", "mrr": "mrr", "map": "mrr", "recall": "hr"}  # and their sums
_UNITS = 2**44
Integers = NDArray[np.integer[Any]]


class NextItems:
    """Means over rows, of which some may be added at a time, in bounded memory.

    With the place `i` of the target, from 1:

    - `hr@k`: 1 if `i <= k`; `recall@k` is the same number, since there is one target;
    - `ndcg@k`: `1 / log2(1 + i)` if `i <= k`;
    - `mrr@k`: `1 / i` if `i <= k`; `map@k` is the same number, since there is one target;
    - `coverage@k`: the share of the items that are in the first k places of at least one row.

    Items of equal scores have no order: each mean is its expected value over all their orders. The
    sums are integers, in units of 2^-44, so that they are the same in any order of the rows. A
    target that is not in the vocabulary, or may not rank, is in no place.

    Args:
        at: The values of k.
        size: Number of ids, the reserved ones included. None: no coverage, as among drawn items.

    Example:
        >>> found = NextItems([1, 2], size=6)
        >>> scores = np.array([[0, 0, 0.1, 0.7, 0.4, 0.2], [0, 0, 0.9, 0.3, 0.8, 0.1]])
        >>> targets, seen = np.array([3, 4]), np.array([[5], [-1]])
        >>> above, equal = target_places(scores, targets, seen)
        >>> found.add(above, equal, best(scores, 2, seen)[0], targets)
        >>> [found.metrics()[name] for name in ("hr@1", "hr@2", "mrr@2", "coverage@1")]
        [0.5, 1.0, 0.75, 0.5]
    """

    def __init__(self, at: Sequence[int], size: int | None = None) -> None:
        if not at or min(at) < 1:
            raise ValueError(f"`at` must name positive numbers of places. Received: at={list(at)}")
        self._at, self._size = tuple(at), size
        self._covered = np.zeros((len(at), size or 0), bool)
        places = np.arange(1, max(at) + 1)
        gains = {"hr": np.ones(max(at)), "ndcg": 1 / np.log2(1 + places), "mrr": 1 / places}
        self._sums = {(name, k): _Sums() for name in gains for k in at}
        self._totals = {name: np.append(0, np.cumsum(gain)) for name, gain in gains.items()}
        self.rows = 0
        self.unknown = 0  # rows whose target is not in the vocabulary
        self.excluded = 0  # rows whose target may not rank

    def add(
        self, above: Integers, equal: Integers, best: Integers | None, targets: Integers
    ) -> None:
        """Adds rows.

        Args:
            above: Numbers of other items with a higher score `(B,)`.
            equal: Numbers of other items with the same score `(B,)`.
            best: Ids of at least max(at) items `(B, any)`, best first, filled up with -1. None
                without a size.
            targets: Ids of the next items `(B,)`, -1 for one that may not rank.
        """
        known = targets >= RESERVED_IDS
        self.rows += len(targets)
        self.excluded += int(np.count_nonzero(targets == ABSENT))
        self.unknown += int(np.count_nonzero(~known & (targets != ABSENT)))
        begin, count = above[known], equal[known] + 1
        for k in self._at:
            first, last = np.minimum(begin, k), np.minimum(begin + count, k)
            for name, total in self._totals.items():
                self._sums[name, k].add((total[last] - total[first]) / count)
        if best is not None:
            for covered, k in zip(self._covered, self._at, strict=True):
                top = best[:, :k]
                covered[top[top != ABSENT]] = True

    def merged(self, other: NextItems) -> NextItems:
        """Returns the means over the rows of both, which have the same `at` and `size`."""
        both = NextItems(self._at, self._size)
        both.rows, both.unknown = self.rows + other.rows, self.unknown + other.unknown
        both.excluded = self.excluded + other.excluded
        both._sums = {name: sums + other._sums[name] for name, sums in self._sums.items()}
        both._covered = self._covered | other._covered
        return both

    def metrics(self) -> dict[str, float | None]:
        """Returns the metrics by name, as `ndcg@10`; means are None if there are no rows."""
        values = {name: sums.mean(self.rows) for name, sums in self._named().items()}
        if self._size is not None:
            shares = self._covered.sum(axis=1) / (self._size - RESERVED_IDS)
            values |= {f"coverage@{k}": float(x) for k, x in zip(self._at, shares, strict=True)}
        return values

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Returns the ends of the 95 % interval of each mean over rows.

        `mean -+ 1.96 * sd / sqrt(rows)`, inside of 0 and 1; with fewer than two rows from 0 to 1.
        It is too narrow where fewer than some 30 rows are hits.
        """
        return {name: sums.interval(self.rows) for name, sums in self._named().items()}

    def _named(self) -> dict[str, _Sums]:
        return {f"{name}@{k}": self._sums[of, k] for name, of in MEANS.items() for k in self._at}


class _Sums:
    """The sums of numbers from 0 to 1 and of their squares, exact once each is in units."""

    def __init__(self, first: int = 0, second: int = 0) -> None:
        self._first, self._second = first, second

    def add(self, values: NDArray[np.float64]) -> None:
        units = np.rint(values * _UNITS).astype(np.int64).astype(object)  # squares need 88 bits
        self._first += int(units.sum())
        self._second += int((units * units).sum())

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(self._first + other._first, self._second + other._second)

    def mean(self, rows: int) -> float | None:
        return self._first / (rows * _UNITS) if rows else None

    def interval(self, rows: int) -> tuple[float, float]:
        if rows < 2:
            return 0.0, 1.0
        mean = self._first / (rows * _UNITS)
        variance = (rows * self._second - self._first**2) / (rows * (rows - 1) * _UNITS**2)
        half = Z * math.sqrt(variance / rows)
        return max(mean - half, 0.0), min(mean + half, 1.0)


def target_places(
    scores: NDArray[np.floating[Any]], targets: Integers, excluded: Integers
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Counts the items that rank above each target, and those of equal score.

    The reserved ids and the excluded items do not rank; the target ranks even if it is excluded.

    Args:
        scores: Scores of all ids `(B, V)`, of which a higher one comes first.
        targets: Ids `(B,)`. All items rank above one that is not in the vocabulary, id 0 or 1.
        excluded: Ids that do not rank, such as seen items, `(B, any)`, filled up with -1.

    Returns:
        Numbers of other items with a higher and with an equal score, both `(B,)`.

    Raises:
        ValueError: The scores have another number of rows than the targets, or are nan.
    """
    _check(scores, targets)
    known = targets >= RESERVED_IDS
    score = scores[np.arange(len(targets)), targets][:, None]
    out, is_out = _not_ranked(excluded, targets)
    theirs = np.take_along_axis(scores, out, axis=1)
    above = np.count_nonzero(scores > score, axis=1) - np.count_nonzero(
        is_out & (theirs > score), 1
    )
    equal = np.count_nonzero(scores == score, axis=1) - np.count_nonzero(
        is_out & (theirs == score), 1
    )
    others = scores.shape[1] - np.count_nonzero(is_out, axis=1)
    return np.where(known, above, others), np.where(known, equal - 1, 0)


def best(
    scores: NDArray[np.floating[Any]], k: int, excluded: Integers
) -> tuple[NDArray[np.int32], NDArray[np.floating[Any]]]:
    """Returns the ids and the scores of the best items of each row, both `(B, k)`.

    The best comes first; of equal scores, the lower id. The reserved ids, the excluded items and
    those with a score of -inf are left out; -1 and -inf fill up rows without k others.

    Args:
        scores: Scores of all ids `(B, V)`.
        k: Number of items.
        excluded: Ids to leave out `(B, any)`, filled up with -1.

    Raises:
        ValueError: The scores have another number of rows than the excluded ids, or are nan.
    """
    _check(scores, excluded)
    ids = np.full((len(scores), k), ABSENT, np.int32)
    values = np.full((len(scores), k), -np.inf, scores.dtype)
    for row, out in enumerate(excluded):  # a copy of one row at a time, not of all scores
        left = scores[row].copy()
        left[:RESERVED_IDS] = left[out[out != ABSENT]] = -np.inf
        place = max(left.size - k, 0)
        places = np.flatnonzero((left >= np.partition(left, place)[place]) & (left > -np.inf))
        places = places[np.argsort(-left[places], kind="stable")[:k]]
        ids[row, : places.size], values[row, : places.size] = places, left[places]
    return ids, values


def sampled_places(
    scores: NDArray[np.floating[Any]], targets: Integers, drawn: Integers
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Counts the drawn items that rank above each target, and those of equal score.

    Args:
        scores: Scores of all ids `(B, V)`.
        targets: Ids `(B,)`. All drawn items rank above one that is not in the vocabulary.
        drawn: Ids of different other items `(B, any)`, filled up with -1.

    Returns:
        Numbers of drawn items with a higher and with an equal score, both `(B,)`.

    Raises:
        ValueError: The scores have another number of rows than the targets, or are nan.
    """
    _check(scores, targets)
    known, is_drawn = targets >= RESERVED_IDS, drawn != ABSENT
    score = scores[np.arange(len(targets)), targets][:, None]
    theirs = np.take_along_axis(scores, np.maximum(drawn, 0), axis=1)
    above = np.count_nonzero(is_drawn & ((theirs > score) | ~known[:, None]), axis=1)
    return above, np.count_nonzero(is_drawn & (theirs == score) & known[:, None], axis=1)


def _check(scores: NDArray[np.floating[Any]], others: Integers) -> None:
    if scores.ndim != 2 or len(scores) != len(others):
        raise ValueError(
            "`scores` must have the shape (B, V), with a row for each of the B targets. "
            f"Received: scores.shape={scores.shape} and B={len(others)}"
        )
    if np.isnan(scores.max(initial=-np.inf)):  # one number, and no array of that shape
        check_scores(scores)


def _not_ranked(excluded: Integers, targets: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Returns ids `(B, any)` and which of them do not rank, each once."""
    reserved = np.broadcast_to(np.arange(RESERVED_IDS), (len(targets), RESERVED_IDS))
    ids = np.sort(np.concatenate([reserved, np.maximum(excluded, 0)], axis=1), axis=1)
    is_first = np.diff(ids, axis=1, prepend=-1) > 0
    is_target = (ids == targets[:, None]) & (targets >= RESERVED_IDS)[:, None]
    return ids, is_first & ~is_target
