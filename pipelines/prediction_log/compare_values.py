"""Compares the values that a store gave with those of a replay, for one feature."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serving.state.columns.missing import MISSING_INT


@dataclass
class Compared:
    """How the values of one feature agree.

    Attributes:
        rows: Number of values.
        equal: Equal to the bit, or missing in both.
        missing: Missing or empty, though the replay has a value.
        extra: A value, though the replay has none.
        different: Others.
        fewer, more: Of counts and lists, those with fewer, and more, events than the replay.
        largest: The largest difference of two numbers; None where values are no numbers.
        inserts, deletes: Of lists, entries that the replay has not, and that only it has.
        first: The row of the first value that is not equal; None: all are.
    """

    rows: int = 0
    equal: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    fewer: int = 0
    more: int = 0
    largest: float | None = None
    inserts: int | None = None
    deletes: int | None = None
    first: int | None = None


def compare_numbers(served: np.ndarray, replayed: np.ndarray, is_count: bool) -> Compared:
    """Compares numbers.

    Args:
        served, replayed: `(rows,)`, NaN is missing.
        is_count: Whether they count events.
    """
    lacks, has_none = np.isnan(served), np.isnan(replayed)
    equal = (served == replayed) | (lacks & has_none)
    both = ~(lacks | has_none)
    difference = served[both].astype(np.float64) - replayed[both].astype(np.float64)
    return Compared(
        len(served),
        int(equal.sum()),
        int((lacks & ~has_none).sum()),
        int((has_none & ~lacks).sum()),
        int((both & ~equal).sum()),
        int((difference < 0).sum()) if is_count else 0,
        int((difference > 0).sum()) if is_count else 0,
        float(np.abs(difference).max(initial=0.0)),
        first=_first(equal),
    )


def compare_lists(
    served: Sequence[np.ndarray], replayed: Sequence[Sequence[Any]], are_ages: bool
) -> Compared:
    """Compares lists.

    Args:
        served: Of each row, `(S,)`, with missing values on the right.
        replayed: Of each row, None where a value is missing.
        are_ages: Whether they hold ages, whose differences are measured where lengths are equal.
    """
    result = Compared(len(served), inserts=0, deletes=0, largest=0.0 if are_ages else None)
    equal = np.zeros(len(served), bool)
    for row, (array, values) in enumerate(zip(served, replayed, strict=True)):
        one, other = _listed(array), _listed(_as(array.dtype, values))
        equal[row] = one == other
        if equal[row]:
            continue
        common = in_common(one, other)
        result.missing += not one
        result.extra += not other
        result.different += bool(one and other)
        result.fewer += len(other) > common
        result.more += len(one) > common
        result.inserts = (result.inserts or 0) + len(one) - common
        result.deletes = (result.deletes or 0) + len(other) - common
        if are_ages and len(one) == len(other):
            pairs = zip(one, other, strict=True)
            known = [abs(a - b) for a, b in pairs if a is not None and b is not None]
            result.largest = max([result.largest or 0.0, *known])
    result.equal, result.first = int(equal.sum()), _first(equal)
    return result


def in_common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """The length of the longest list that both lists have in this order.

    >>> in_common([1, 2, 3, 4], [2, 4, 3, 5])
    2
    """
    places: dict[Any, list[int]] = {}
    for place, value in enumerate(other):
        places.setdefault(value, []).insert(0, place)
    ends: list[int] = []  # of increasing places, the smallest end of each length
    for value in one:
        for place in places.get(value, ()):
            at = bisect_left(ends, place)
            ends[at : at + 1] = [place]
    return len(ends)


def _first(equal: np.ndarray) -> int | None:
    return None if equal.all() else int(equal.argmin())


def _as(dtype: np.dtype[Any], values: Sequence[Any]) -> np.ndarray:
    """A list as the server writes it into an input."""
    missing = {"f": np.nan, "i": MISSING_INT}.get(dtype.kind, b"")
    array = np.full(len(values), missing, dtype)
    array[:] = [missing if value is None else value for value in values]
    return array


def _listed(array: np.ndarray) -> list[Any]:
    """The values of a padded list, None where one is missing."""
    values = [_plain(value) for value in array.tolist()]
    while values and values[-1] is None:
        values.pop()
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    return None if value in ("", MISSING_INT) or value != value else value
