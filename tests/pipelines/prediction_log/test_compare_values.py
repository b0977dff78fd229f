"""Numbers and lists of a store against those of a replay: each kind of difference is counted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from pipelines.prediction_log.compare_values import compare_lists, compare_numbers, in_common
from serving.state.columns.missing import MISSING_INT

NAN = np.nan


def slow(one: Sequence[Any], other: Sequence[Any]) -> int:
    """The definition, as a recursion."""

    @cache
    def of(i: int, j: int) -> int:
        if i == len(one) or j == len(other):
            return 0
        skipped = max(of(i + 1, j), of(i, j + 1))
        return max(skipped, 1 + of(i + 1, j + 1)) if one[i] == other[j] else skipped

    return of(0, 0)


def test_longest_common_list() -> None:
    rng = np.random.default_rng(0)
    for _ in range(97):
        one, other = (rng.integers(5, size=rng.integers(9)).tolist() for _ in range(2))
        assert in_common(one, other) == slow(one, other)


def test_numbers() -> None:
    served = np.array([1, NAN, NAN, 4, 5, 7], np.float32)
    replayed = np.array([1, NAN, 3, NAN, 6, 5], np.float32)
    compared = compare_numbers(served, replayed, is_count=True)
    assert (compared.equal, compared.missing, compared.extra, compared.different) == (2, 1, 1, 2)
    assert (compared.fewer, compared.more) == (1, 1)
    assert (compared.largest, compared.first) == (2.0, 2)
    assert compare_numbers(served, served, is_count=False).first is None


def test_lists() -> None:
    served = np.array([[1, 2, -1], [-1, -1, -1], [5, 6, 7], [8, -1, 9], [3, -1, -1]])
    served[served == -1] = MISSING_INT
    replayed = [[1, 2], [4], [6, 7, 5, 8], [8, None, 9], []]
    compared = compare_lists(list(served), replayed, are_ages=False)
    assert (compared.equal, compared.missing, compared.extra, compared.different) == (2, 1, 1, 1)
    assert (compared.inserts, compared.deletes) == (2, 3)
    assert (compared.largest, compared.first) == (None, 1)


def test_texts_and_ages() -> None:
    texts = np.array([["näh".encode(), b""], [b"x", b"y"]], object)
    assert compare_lists(list(texts), [["näh"], ["x", "y"]], are_ages=False).equal == 2
    ages = compare_lists([np.array([3.5, 1.0, NAN], np.float32)], [[3.0, 1.0]], are_ages=True)
    assert (ages.different, ages.largest) == (1, 0.5)
