"""The search for the worst slices: found on half of the users, confirmed on the other half."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pipelines.metrics.intervals import NORMAL, Difference, cluster_codes, difference
from pipelines.metrics.metric_inputs import Floats, check_probabilities
from pipelines.metrics.probability import calibration
from pipelines.metrics.slice_search_half import Codes, Columns, Half, Values

LEVEL = 0.05
TESTED = 20  # candidates that the second half tests, at most
RANKED = 400  # slices of the first half, before those that say the same are left out


class Slice(NamedTuple):
    """A slice that both halves of the users show.

    Attributes:
        columns: Place of its one or two columns.
        values: The value that each column has in the slice.
        rows, positives: Of all rows.
        found: The difference to the other rows in the half that was searched, which flatters it;
            less what better slices explain.
        confirmed: The difference in the other half.
        adjusted: The p of `confirmed` after Benjamini and Hochberg, at most 0.05.
        calibration: Predicted over observed rate in the half that confirmed.
    """

    columns: Columns
    values: Values
    rows: int
    positives: int
    found: Difference
    confirmed: Difference
    adjusted: float
    calibration: float


class SliceSearch(NamedTuple):
    """The result of `worst_slices`.

    Attributes:
        searched: Slices with rows enough in the half that was searched.
        tested: Candidates that the other half tested: the family of Benjamini and Hochberg.
        reported: The confirmed ones, the surest first.
    """

    searched: int
    tested: int
    reported: list[Slice]


class _Candidate(NamedTuple):
    columns: Columns
    values: Values
    effect: float
    size: float  # of the effect, in standard errors


def worst_slices(
    labels: ArrayLike,
    scores: ArrayLike,
    clusters: ArrayLike,
    columns: Sequence[Codes],
    seed: int = 0,
) -> SliceSearch:
    """Slices in which the outcomes are furthest from what the probabilities expect.

    A slice is a value of one column, or of two. Its effect is the mean of `row_excess` in it less
    that of all other rows, with the error of `SegmentMetrics` for rows that depend on each other
    within a cluster. Above 0 the outcomes surprise the model more than it expects: it predicts too
    little of a rare label, or orders the rows wrongly. Below 0 it is less sure than it may be: it
    predicts too much.

    Half of the clusters rank all slices by `|effect| / error`, which weighs size and effect. A
    slice counts if its mean is further from 0 than that of the other rows, and if it keeps half of
    its effect when those of better slices are subtracted from their rows. The first 20 are
    candidates.

    The other half tests each candidate, less the better ones, on the side on which it was found.
    Its clusters had no part in the choice, so a p holds for a chosen slice as for any other, and
    Benjamini and Hochberg over all candidates keep the share of false reports below 5 %; where no
    slice differs, at most 5 % of all searches report any. Candidates overlap, which this allows
    where they move together. A candidate with too few rows there counts with p = 1. p is of both
    sides although one is tested, which pays for its approximation: of the skewed excess by Hall's
    transformation, of few clusters by Student's t.

    Args:
        labels: 0 or 1 per row, shape (rows,).
        scores: Probability of 1 per row, shape (rows,).
        clusters: The user or the request of each row, shape (rows,), as for `auc_interval`.
        columns: The values of each column as numbers 0, 1, 2, ..., each of shape (rows,). Not the
            scores, nor what is known only after the outcome.
        seed: Seed of the halves.

    Returns:
        A `SliceSearch`. Slices and the rows outside of them have at least 200 rows, 20 of each
        label and 30 clusters in each half.

    Raises:
        ValueError: As for `logloss`.

    Source: after Chung et al., "Slice Finder", ICDE 2019, arXiv 1807.06068, and Sagadeeva and
    Boehm, "SliceLine", SIGMOD 2021; Benjamini and Hochberg, JRSS B 1995; Hall, "On the removal of
    skewness by transformation", JRSS B 1992.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> device, hour = rng.integers(0, 3, 20_000), rng.integers(0, 24, 20_000)
        >>> true = np.where(device == 2, 0.3, 0.1)
        >>> labels = rng.random(20_000) < true
        >>> found = worst_slices(labels, np.full(20_000, 0.1), np.arange(20_000), [device, hour])
        >>> [(each.columns, each.values) for each in found.reported]
        [((0,), (2,))]
    """
    y, z = check_probabilities(labels, scores)
    codes = cluster_codes(clusters, y)
    count = int(codes.max(initial=-1)) + 1
    first = np.zeros(count, bool)
    first[np.random.default_rng(seed).permutation(count)[: count // 2]] = True
    searching, testing = (
        Half.of(y, z, codes, columns, first[codes] == side) for side in (True, False)
    )
    searched, candidates = _candidates(searching)
    effects, tests = (_differences(half, candidates) for half in (searching, testing))
    reported = [
        _slice((searching, testing), candidates[place], effects[place], tests[place], adjusted)
        for place, adjusted in _kept([test.p for test in tests])
    ]
    return SliceSearch(searched, len(tests), reported)


def _candidates(half: Half) -> tuple[int, list[_Candidate]]:
    """The number of slices with rows enough, and the candidates among them."""
    searched, ranked = 0, []
    for columns in (
        *((column,) for column in range(len(half.columns))),
        *itertools.combinations(range(len(half.columns)), 2),
    ):
        mean, rest, error, enough = half.effects(*half.codes(columns))
        searched += int(enough.sum())
        for code in np.flatnonzero(enough & (np.abs(mean) > np.abs(rest))).tolist():
            effect = float(mean[code] - rest[code])
            size = abs(effect) / float(error[code])
            ranked.append(_Candidate(columns, half.values(columns, code), effect, size))
    ranked.sort(key=lambda candidate: -candidate.size)  # of equal ones a single column comes first
    return searched, _different(half, ranked[:RANKED])


def _different(half: Half, ranked: Sequence[_Candidate]) -> list[_Candidate]:
    """The slices that keep half of their effect without those of better ones."""
    excess, different = half.excess.copy(), list[_Candidate]()
    for candidate in ranked:
        inside = half.inside(candidate.columns, candidate.values)
        rows, total = np.count_nonzero(inside), excess[inside].sum()
        left = total / rows - (excess.sum() - total) / (inside.size - rows)
        if 2 * left / candidate.effect >= 1:
            different.append(candidate)
            excess[inside] -= left
        if len(different) == TESTED:
            break
    return different


def _differences(half: Half, candidates: Sequence[_Candidate]) -> list[Difference]:
    """The effect of each candidate less those before it, with the p of both sides.

    p is 1 on the wrong side and for few rows.
    """
    excess, effects = half.excess.copy(), []
    for candidate in candidates:
        inside = half.inside(candidate.columns, candidate.values)
        if not half.effects(inside.astype(np.uint8), 2).enough[-1]:
            effects.append(Difference(np.nan, np.nan, np.nan, 1.0, half.sums.size))
            continue
        inner, outer = half.influences(inside, excess)
        effect = difference(inner, outer)
        clusters = [np.unique(half.clusters[rows]).size for rows in (inside, ~inside)]
        right = effect.value * candidate.effect > 0
        p = _p(effect.value, inner[1] - outer[1], clusters) if right else 1.0
        effects.append(effect._replace(p=p))
        excess[inside] -= effect.value
    return effects


def _p(value: float, moved: Floats, clusters: Sequence[int]) -> float:
    """Probability of a difference as large by chance alone, on either side."""
    squares, count = moved @ moved, moved.size
    t = abs(value) / np.sqrt(count / (count - 1) * squares)
    skewness = np.sign(value) * (moved**3).sum() / squares**1.5
    t += skewness / 3 * t**2 + skewness**2 / 27 * t**3 + skewness / 6  # Hall
    free = min(clusters) - 1
    t = np.sign(t) * np.sqrt(free * np.log1p(t**2 / free)) * (8 * free + 1) / (8 * free + 3)
    return min(2 * NORMAL.cdf(-float(t)), 1.0)  # Student's t to a normal one, Wallace 1959


def _kept(p: Sequence[float]) -> list[tuple[int, float]]:
    """Place and adjusted p of what Benjamini and Hochberg keep, by rising p."""
    order = np.argsort(p, kind="stable")
    scaled = np.asarray(p)[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.minimum.accumulate(scaled[::-1])[::-1]
    pairs = zip(order.tolist(), adjusted.tolist(), strict=True)
    return [(place, level) for place, level in pairs if level <= LEVEL]


def _slice(
    halves: Sequence[Half],
    candidate: _Candidate,
    searched: Difference,
    confirmed: Difference,
    adjusted: float,
) -> Slice:
    inside = [half.inside(candidate.columns, candidate.values) for half in halves]
    labels = [half.labels[rows] for half, rows in zip(halves, inside, strict=True)]
    rows, positives = (sum(map(len, labels)), int(sum(values.sum() for values in labels)))
    ratio = calibration(labels[1], halves[1].scores[inside[1]])
    numbers = (candidate.columns, candidate.values, rows, positives)
    return Slice(*numbers, searched, confirmed, adjusted, ratio)
