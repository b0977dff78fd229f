"""Half of the users' rows, for the search of slices: the effects of all slices at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.intervals import Influence, mean_influence
from pipelines.metrics.metric_inputs import Floats
from pipelines.metrics.probability import row_excess
from pipelines.metrics.ranked import run_starts
from pipelines.metrics.segment_metrics import FEW_CLUSTERS, FEW_OF_A_CLASS, FEW_ROWS

Codes = NDArray[np.integer]
Columns = tuple[int, ...]  # places of the one or two columns of a slice
Values = tuple[int, ...]  # the value that each of them has


class Effects(NamedTuple):
    """The mean excess of each value of a column or pair, against that of the other rows.

    Attributes:
        mean: In the slice, shape (values,).
        rest: In the other rows.
        error: Standard error of the difference.
        enough: Whether both have the rows, labels and clusters that an interval needs.
    """

    mean: Floats
    rest: Floats
    error: Floats
    enough: NDArray[np.bool_]


@dataclass(frozen=True)
class Half:
    """Rows of half of the clusters, sorted by cluster.

    Attributes:
        labels, scores, excess: Of each row.
        clusters: The number of its cluster, 0, 1, 2, ...
        columns: The values of each column.
        sizes: The number of values of each column, the same in both halves.
        sums, rows: The sum of the excess and the number of rows of each cluster.
    """

    labels: Floats
    scores: Floats
    excess: Floats
    clusters: Codes
    columns: list[Codes]
    sizes: list[int]
    sums: Floats
    rows: Floats

    @classmethod
    def of(
        cls,
        labels: Floats,
        scores: Floats,
        clusters: Codes,
        columns: Sequence[Codes],
        inside: NDArray[np.bool_],
    ) -> Half:
        """The rows where `inside` is true."""
        rows = np.flatnonzero(inside)
        rows = rows[np.argsort(clusters[rows], kind="stable")]
        starts = run_starts(clusters[rows])
        lengths = np.diff(starts, append=rows.size)
        y, z = labels[rows], scores[rows]
        excess = row_excess(y, z)
        return cls(
            y,
            z,
            excess,
            np.repeat(np.arange(starts.size, dtype=np.int32), lengths),
            [codes[rows] for codes in columns],
            [int(codes.max(initial=-1)) + 1 for codes in columns],
            np.add.reduceat(excess, starts) if starts.size else np.zeros(0),
            lengths.astype(np.float64),
        )

    def codes(self, columns: Columns) -> tuple[Codes, int]:
        """The value of each row in a column or pair, and the number of values."""
        size = int(np.prod([self.sizes[column] for column in columns]))
        kind = np.min_scalar_type(max(size - 1, 0))  # 16 bits are sorted in linear time
        first, *others = (self.columns[column].astype(kind) for column in columns)
        for column, codes in zip(columns[1:], others, strict=True):
            first = first * kind.type(self.sizes[column]) + codes
        return first, size

    def values(self, columns: Columns, code: int) -> Values:
        """The value of each column, from that of the pair."""
        return (code,) if len(columns) == 1 else divmod(code, self.sizes[columns[1]])

    def inside(self, columns: Columns, values: Values) -> NDArray[np.bool_]:
        """The rows of a slice, shape (rows,)."""
        pairs = zip(columns, values, strict=True)
        return np.logical_and.reduce([self.columns[column] == value for column, value in pairs])

    def influences(self, inside: NDArray[np.bool_], excess: Floats) -> tuple[Influence, Influence]:
        """The mean excess inside and outside, and how far each cluster moves them."""
        inner, outer = (
            mean_influence(excess[rows], self.clusters[rows], self.sums.size)
            for rows in (inside, ~inside)
        )
        return inner, outer

    def effects(self, codes: Codes, size: int) -> Effects:
        """The effects of all values of a column or pair, in one pass.

        With the excess E and the rows n of a cluster in a slice of I rows, T and N of the whole
        cluster, and O other rows, the cluster moves the difference by
        `(E - mean * n) / I - (T - E - rest * (N - n)) / O`. Its square has terms of T and N alone,
        which every slice shares, and terms that are 0 for clusters without rows in the slice.
        """
        order = np.argsort(codes, kind="stable")
        value, cluster, count = codes[order], self.clusters[order], self.sums.size
        new = np.ones(value.size, bool)  # where a cluster of a slice begins
        new[1:] = (value[1:] != value[:-1]) | (cluster[1:] != cluster[:-1])
        starts = np.flatnonzero(new)
        excess = np.add.reduceat(self.excess[order], starts) if starts.size else np.zeros(0)
        number = np.diff(starts, append=value.size).astype(np.float64)
        value, cluster = value[starts], cluster[starts]
        first = run_starts(value)

        def summed(values: Floats) -> Floats:
            sums = np.zeros(size)
            if first.size:
                sums[value[first]] = np.add.reduceat(values, first)
            return sums

        sums, rows = self.sums[cluster], self.rows[cluster]
        inside, total = summed(number), summed(excess)
        others = self.excess.size - inside
        with np.errstate(divide="ignore", invalid="ignore"):  # those are not enough
            mean, rest = total / inside, (self.sums.sum() - total) / others
            a, b = 1 / inside + 1 / others, -mean / inside - rest / others
            c, d = -1 / others, rest / others
            squares = (
                a * a * summed(excess * excess)
                + 2 * a * b * summed(excess * number)
                + b * b * summed(number * number)
                + 2 * a * c * summed(excess * sums)
                + 2 * a * d * summed(excess * rows)
                + 2 * b * c * summed(number * sums)
                + 2 * b * d * summed(number * rows)
                + c * c * (self.sums @ self.sums)
                + 2 * c * d * (self.sums @ self.rows)
                + d * d * (self.rows @ self.rows)
            )
            error = np.sqrt(np.maximum(squares, 0) * count / max(count - 1, 1))
        positives = np.bincount(codes, self.labels, size).astype(np.float64)
        touched, whole = summed(np.ones(value.size)), summed((number == rows).astype(np.float64))
        enough = _enough(inside, positives, touched) & (error > 0)
        enough &= _enough(others, self.labels.sum() - positives, count - whole)
        return Effects(mean, rest, error, enough)


def _enough(rows: Floats, positives: Floats, clusters: Floats) -> NDArray[np.bool_]:
    of_a_class = np.minimum(positives, rows - positives)
    return (rows >= FEW_ROWS) & (of_a_class >= FEW_OF_A_CLASS) & (clusters >= FEW_CLUSTERS)
