"""Rows in the order of their scores: counts of the distinct ones, and the places of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.metric_inputs import ONE_CLASS, undefined

Numbers = NDArray[np.intp]
Integers = NDArray[np.int64]
_AT_ONCE = 2**18  # scores that are handled together: in the processor's cache


@dataclass(frozen=True)
class LabelCounts:
    """Numbers of positives and negatives of each distinct score.

    They are all that AUC, logloss and calibration need of the rows. Counts of parts of the rows
    add up to those of the whole, in any order, so metrics of merged counts are those of the whole
    to the last bit.

    Attributes:
        scores: Distinct and rising, shape (scores,).
        positive, negative: Rows of each label, shape (scores,).

    Example:
        >>> first = LabelCounts.of(np.array([0, 1, 1]), np.array([0.1, 0.4, 0.8]))
        >>> both = first.merged(LabelCounts.of(np.array([0]), np.array([0.4])))
        >>> both.negative.tolist(), both.auc
        ([1, 1, 0], 0.875)
    """

    scores: NDArray[Any]
    positive: Integers
    negative: Integers

    @classmethod
    def of(cls, labels: NDArray[Any], scores: NDArray[Any]) -> LabelCounts:
        """Counts rows whose labels are 0 or 1 and whose scores are not nan."""
        ones = labels == 1
        return cls._of_classes(*(_counted(scores[mask]) for mask in (ones, ~ones)))

    @classmethod
    def _of_classes(
        cls, positive: tuple[NDArray[Any], Integers], negative: tuple[NDArray[Any], Integers]
    ) -> LabelCounts:
        distinct = _distinct(np.concatenate([positive[0], negative[0]]))
        return cls(distinct, *(_spread(distinct, *part) for part in (positive, negative)))

    def merged(self, other: LabelCounts) -> LabelCounts:
        """The counts of the rows of both."""
        distinct = _distinct(np.concatenate([self.scores, other.scores]))
        parts = (self, other)
        positive = sum(_spread(distinct, part.scores, part.positive) for part in parts)
        negative = sum(_spread(distinct, part.scores, part.negative) for part in parts)
        return LabelCounts(distinct, np.asarray(positive), np.asarray(negative))

    @property
    def rows(self) -> Integers:
        """Rows of each score."""
        return self.positive + self.negative

    @cached_property
    def totals(self) -> tuple[int, int]:
        """Numbers of positives and of negatives."""
        return int(self.positive.sum()), int(self.negative.sum())

    @property
    def both_classes(self) -> bool:
        """Whether there are positives and negatives."""
        return all(self.totals)

    @cached_property
    def below(self) -> Integers:
        """Twice the negatives below each score, and once those of it."""
        return 2 * np.cumsum(self.negative) - self.negative

    @cached_property
    def above(self) -> Integers:
        """Twice the positives above each score, and once those of it."""
        return 2 * (self.totals[0] - np.cumsum(self.positive)) + self.positive

    @cached_property
    def auc(self) -> float:
        """The AUC, a ratio of integers; nan with a warning unless both classes are present."""
        if not self.both_classes:
            return undefined("AUC", ONE_CLASS)
        positives, negatives = self.totals
        return int((self.positive * self.below).sum()) / (2 * positives * negatives)

    def blocks(self) -> Iterator[LabelCounts]:
        """The counts of some hundred thousand scores at a time, in order."""
        for start in range(0, self.scores.size, _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            yield LabelCounts(self.scores[some], self.positive[some], self.negative[some])

    def total(self, values: Callable[[LabelCounts], NDArray[Any]]) -> float:
        """The sum of some values over all scores, which are computed in blocks."""
        return math.fsum(float(values(block).sum()) for block in self.blocks())

    def places(self, scores: NDArray[Any]) -> Numbers:
        """The place of each score, all of which are counted, among the distinct ones."""
        index = np.empty(scores.size, np.intp)
        for start in range(0, scores.size, _AT_ONCE):
            part = scores[start : start + _AT_ONCE]
            order = np.argsort(part)  # neighbours are found near each other
            index[start : start + _AT_ONCE][order] = np.searchsorted(self.scores, part[order])
        return index


@dataclass(frozen=True)
class Ranked:
    """Rows, and the place of each score among the distinct scores of all rows.

    Attributes:
        labels: 0 or 1 of each row, shape (rows,).
        places: Shape (rows,).
        counts: Of these rows, or of more than these.
    """

    labels: NDArray[Any]
    places: Numbers
    counts: LabelCounts

    @classmethod
    def of(
        cls, labels: NDArray[Any], scores: NDArray[Any], counts: LabelCounts | None = None
    ) -> Ranked:
        """Finds the places of rows whose labels are 0 or 1 and whose scores are not nan.

        Args:
            labels, scores: Of each row.
            counts: Of all rows, if these are only some of them.
        """
        counts = LabelCounts.of(labels, scores) if counts is None else counts
        return cls(labels, counts.places(scores), counts)

    @property
    def auc(self) -> float:
        """The AUC of all rows."""
        return self.counts.auc

    def within(self, groups: Numbers) -> LabelCounts:
        """The rows counted by group and score: integers, of which those of a group are neighbours.

        Args:
            groups: Number of each row's group; rows below 0 are left out.
        """
        keys = groups * self.counts.scores.size + self.places
        named = groups >= 0
        return LabelCounts.of(self.labels[named], keys[named])

    def groups_of(self, within: LabelCounts) -> Integers:
        """The group of each key of `within`."""
        return np.asarray(within.scores // max(self.counts.scores.size, 1))


def run_sums(values: NDArray[Any], starts: Numbers) -> NDArray[Any]:
    """Sums of the values of each run."""
    return np.add.reduceat(values, starts) if starts.size else np.zeros(0, values.dtype)


def run_starts(keys: NDArray[Any]) -> Numbers:
    """The places at which runs of equal keys begin."""
    new = np.ones(keys.size, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return np.flatnonzero(new)


def _counted(values: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """The distinct values and the number of each."""
    values = np.sort(values + 0)  # no -0.0, which would stand for 0.0 or not
    starts = run_starts(values)
    return values[starts], np.diff(starts, append=values.size)


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    values = np.sort(values)
    return values[run_starts(values)]


def _spread(distinct: NDArray[Any], values: NDArray[Any], counts: Integers) -> Integers:
    """The counts of some of the distinct values, 0 for the others."""
    spread = np.zeros(distinct.size, np.int64)
    spread[np.searchsorted(distinct, values)] = counts
    return spread
