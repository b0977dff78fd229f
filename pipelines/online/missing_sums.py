"""Sums over users of missing values, from which shares and their errors follow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.segment_metrics import FEW_CLUSTERS

Absent = Iterable[tuple[slice, str, NDArray[np.bool_]]]


class MissingSums(NamedTuple):
    """Sums over the users of one version, feature and hour.

    Attributes:
        users: Number of users.
        rows, missing: Sums of the rows n and of the missing values m of each user.
        rows_rows, rows_missing, missing_missing: Sums of n^2, n m and m^2.
    """

    users: float
    rows: float
    missing: float
    rows_rows: float
    rows_missing: float
    missing_missing: float

    @property
    def are_few(self) -> bool:
        """Whether there are fewer users than an interval needs."""
        return self.users < FEW_CLUSTERS

    @property
    def share(self) -> float:
        """The share of missing values."""
        return self.missing / self.rows

    def squares(self, share: float) -> float:
        """The sum over users of `(m - share * n)^2`."""
        both = self.missing_missing - 2 * share * self.rows_missing + share**2 * self.rows_rows
        return max(both, 0.0)


class Excess(NamedTuple):
    """How much larger a share is than another one.

    Attributes:
        share, other: Both shares.
        error: The standard error of their difference.
    """

    share: float
    other: float
    error: float

    def ends(self, z: float) -> tuple[float, float]:
        """The ends of the difference's interval."""
        difference = self.share - self.other
        return difference - z * self.error, difference + z * self.error


def excess(ours: MissingSums, theirs: MissingSums) -> Excess | None:
    """The excess of a share over another one; None if either is of too few users.

    With the share p of both sides together, the variance of a side is the larger one of

    `U / (U - 1) * sum_u (m_u - share * n_u)^2 / N^2` and
    `(sum_u of both (m_u - p n_u)^2 / N of both) / N`.

    The first alone is too small where nearly all values of a side are missing, and the second where
    nearly none is: either then finds an excess that is chance, thousands of times too often at the
    levels of many features and hours.
    """
    if ours.are_few or theirs.are_few:
        return None
    pooled = MissingSums(*(one + other for one, other in zip(ours, theirs, strict=True)))
    of_row = pooled.squares(pooled.share) / pooled.rows
    variance = 0.0
    for side in (ours, theirs):
        alone = side.users / (side.users - 1) * side.squares(side.share) / side.rows**2
        variance += max(alone, of_row / side.rows)
    return Excess(ours.share, theirs.share, float(np.sqrt(variance)))


def sums_of(
    absent: Absent, users: NDArray[np.intp], is_canary: NDArray[np.bool_]
) -> dict[str, tuple[MissingSums, MissingSums]]:
    """The sums of an hour by feature: of the stable version and of the canary.

    Args:
        absent: Masks of missing values, a part of the rows of a feature at a time.
        users: The number of each row's user, shape (rows,).
        is_canary: The rows of the canary, shape (rows,).
    """
    count = int(users.max(initial=-1)) + 1
    places = users + count * is_canary
    rows = np.bincount(places, minlength=2 * count).astype(np.float64)
    missing: defaultdict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(2 * count))
    for part, feature, mask in absent:
        missing[feature] += np.bincount(places[part][mask], minlength=2 * count)
    sides = (slice(None, count), slice(count, None))
    return {
        feature: (_sums(rows[sides[0]], of[sides[0]]), _sums(rows[sides[1]], of[sides[1]]))
        for feature, of in missing.items()
    }


def _sums(rows: NDArray[np.float64], missing: NDArray[np.float64]) -> MissingSums:
    users = float(np.count_nonzero(rows))
    squares = (rows @ rows, rows @ missing, missing @ missing)
    return MissingSums(users, *map(float, (rows.sum(), missing.sum(), *squares)))
