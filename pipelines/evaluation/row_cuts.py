"""Divides the evaluated rows by the values of columns: all segments, and the worst slices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.metrics.intervals import Difference
from pipelines.metrics.segment_metrics import SegmentMetrics
from pipelines.metrics.slice_search import Slice
from pipelines.metrics.slice_search import worst_slices as search
from pipelines.storage.columns import shown_value
from serving.state.columns.arrow_kinds import is_text
from serving.state.columns.missing import is_missing

MISSING, OTHER = "(missing)", "(other)"
VALUES = 12  # a number with more is cut
PARTS = 5
MOST = 50  # segments of a column or of a pair, besides the missing and the other values
Codes = NDArray[np.int32]


class Cut(NamedTuple):
    """The segments of one column or pair.

    Attributes:
        columns: The column, or both.
        names: The name of each segment, such as `device=tablet`.
        ranges: The values of a segment that its name does not say, or an empty text.
        codes: The segment of each row, shape (rows,).
    """

    columns: tuple[str, ...]
    names: list[str]
    ranges: list[str]
    codes: Codes

    @property
    def column(self) -> pa.Array:
        """The name of each row's segment."""
        return pa.DictionaryArray.from_arrays(self.codes, pa.array(self.names, pa.string()))


def cut_all(combinations: Iterable[tuple[str, ...]], columns: Mapping[str, pa.Array]) -> list[Cut]:
    """The segments of some columns and pairs.

    Args:
        combinations: The columns, alone or as a pair.
        columns: Values by column; of a list column, its lengths.
    """
    combinations = list(combinations)
    single = {n: cut(n, columns[n]) for n in dict.fromkeys(itertools.chain(*combinations))}
    return [
        single[names[0]] if len(names) == 1 else cross(*(single[name] for name in names))
        for names in combinations
    ]


def cut(name: str, column: pa.Array) -> Cut:
    """The segments of one column: its values, or five ranges of a number with more than 12.

    Null, NaN, an empty string and what stands for null in integers are one segment. Values beyond
    the 50 most common are one segment too.
    """
    values, codes = _sorted_values(column)
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    ordered = not is_text(values.type)
    if ordered and len(values) > VALUES:
        ends = np.cumsum(counts)
        part_of = (ends - counts / 2) * PARTS // ends[-1]
        parts = np.unique(part_of, return_inverse=True)[1]
        firsts = np.flatnonzero(np.diff(parts, prepend=-1))
        lasts = [*(firsts[1:] - 1), len(values) - 1]
        labels = [f"q{number + 1}" for number in range(len(firsts))]
        pairs = zip(firsts, lasts, strict=True)
        ranges = ["..".join(_text(values[int(i)], 4) for i in ends) for ends in pairs]
    else:
        parts, common, left = _most_common(counts)
        labels = [_text(values[int(i)]) for i in common] + [OTHER] * bool(left)
        ranges = [""] * len(common) + [f"{left:,} values"] * bool(left)
    codes = np.where(codes < 0, len(labels), parts[codes] if len(values) else 0).astype(np.int32)
    if (codes == len(labels)).any():
        labels, ranges = [*labels, MISSING], [*ranges, ""]
    return Cut((name,), [f"{name}={label}" for label in labels], ranges, codes)


def cross(first: Cut, second: Cut) -> Cut:
    """The pairs of segments that have rows; those beyond the 50 most common are one segment."""
    both = first.codes.astype(np.int64) * len(second.names) + second.codes
    present, codes = np.unique(both, return_inverse=True)
    parts, common, left = _most_common(np.bincount(codes))
    pairs = [divmod(int(present[i]), len(second.names)) for i in common]
    columns = first.columns + second.columns
    names = [f"{first.names[i]}, {second.names[j]}" for i, j in pairs]
    ranges = [", ".join(filter(None, (first.ranges[i], second.ranges[j]))) for i, j in pairs]
    if left:
        names, ranges = [*names, f"{', '.join(columns)}={OTHER}"], [*ranges, f"{left:,} pairs"]
    return Cut(columns, names, ranges, parts[codes].astype(np.int32))


def segment_metrics(
    cuts: Sequence[Cut],
    labels: NDArray[Any],
    scores: NDArray[Any],
    clusters: NDArray[Any],
    probabilities: bool,
) -> list[dict[str, Any]]:
    """The metrics of all segments of one task, as the evaluation's metrics.json has them.

    Args:
        cuts: The segments.
        labels: 0, 1, or nan for unknown, shape (rows,).
        scores: The score of each row, shape (rows,).
        clusters: The user or the request of each row, shape (rows,).
        probabilities: Whether the scores are probabilities.
    """
    if not cuts:
        return []
    known = ~np.isnan(labels)
    metrics = SegmentMetrics(labels[known], scores[known], clusters[known], probabilities)
    return [
        {"columns": list(cut.columns), "name": name, "range": values, **metrics.of(codes == number)}
        for cut in cuts
        for codes in [cut.codes[known]]
        for number, (name, values) in enumerate(zip(cut.names, cut.ranges, strict=True))
    ]


def _sorted_values(column: pa.Array) -> tuple[pa.Array, Codes]:
    """Distinct values in rising order, and each row's place among them; -1 is missing."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        column = column.cast(pa.string())
    encoded = column.dictionary_encode()
    values, codes = encoded.dictionary, encoded.indices.fill_null(-1).to_numpy()
    order = pc.sort_indices(values).to_numpy()
    order = order[~is_missing(values)[order]]
    place = np.full(len(values) + 1, -1, np.int32)  # the last one is that of null
    place[order] = np.arange(len(order))
    return values.take(pa.array(order)), place[codes]


def _most_common(
    counts: NDArray[np.int64],
) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """The segment of each value, the values with one of their own, and the number of others."""
    common = np.sort(np.argsort(-counts, kind="stable")[:MOST])
    parts = np.full(len(counts), len(common))
    parts[common] = np.arange(len(common))
    return parts, common, len(counts) - len(common)


def _text(value: pa.Scalar, digits: int | None = None) -> str:
    """A value as text; of a number with a fraction, its first digits or all."""
    if not pa.types.is_floating(value.type):
        return shown_value(value) if pa.types.is_temporal(value.type) else str(value.as_py())
    if digits is not None:
        return f"{value.as_py():.{digits}g}"
    number = value.as_py()
    single = pa.types.is_float32(value.type)  # 0.1 is not 0.10000000149
    return np.format_float_positional(np.float32(number) if single else number, trim="-")


def worst_slices(
    cuts: Sequence[Cut],
    labels: NDArray[Any],
    scores: NDArray[Any],
    clusters: NDArray[Any],
    seed: int,
) -> dict[str, Any]:
    """The worst slices of one task, as the evaluation's metrics.json has them.

    Args:
        cuts: The segments of each column that is searched.
        labels: 0, 1, or nan for unknown, shape (rows,).
        scores: The probability of each row, shape (rows,).
        clusters: The user or the request of each row, shape (rows,).
        seed: Seed of the halves.
    """
    known = ~np.isnan(labels)
    columns = [cut.codes[known] for cut in cuts]
    result = search(labels[known], scores[known], clusters[known], columns, seed)
    return {
        "columns": [cut.columns[0] for cut in cuts],
        "searched": result.searched,
        "tested": result.tested,
        "reported": [_named(cuts, slice_) for slice_ in result.reported],
    }


def _named(cuts: Sequence[Cut], entry: Slice) -> dict[str, Any]:
    """A slice with the names of its values, like those of a segment."""
    pairs = [(cuts[place], value) for place, value in zip(entry.columns, entry.values, strict=True)]
    return {
        "columns": [cut.columns[0] for cut, _ in pairs],
        "name": ", ".join(cut.names[value] for cut, value in pairs),
        "range": ", ".join(filter(None, (cut.ranges[value] for cut, value in pairs))),
        "rows": entry.rows,
        "positives": entry.positives,
        "found": _effect(entry.found),
        "confirmed": {**_effect(entry.confirmed), "p": entry.confirmed.p},
        "p_adjusted": entry.adjusted,
        "calibration": entry.calibration,
    }


def _effect(difference: Difference) -> dict[str, Any]:
    ends = [difference.low, difference.high]
    return {
        "excess_logloss_difference": difference.value,
        "interval": ends,
        "clusters": difference.clusters,
    }
