"""The benchmark's arithmetic: operations of a row, medians, ratios and shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rich.table import Table

from benchmarks.peers import tables
from benchmarks.peers.settings import flops


def products(*shapes: tuple[int, int, int]) -> float:
    return float(sum(2 * a * b * c for a, b, c in shapes))


def test_operations_of_a_row() -> None:
    heads = 2 * [(39, 32, 39), (39, 39, 32)]  # scores and weighted values of two heads
    first, second = 4 * [(39, 16, 64)], 4 * [(39, 64, 64)]
    forward = products(*first, *heads, *second, *heads, (1, 39 * 64, 1))
    np.testing.assert_allclose(flops("autoint"), 3 * forward)

    expert, tower = [(1, 624, 256), (1, 256, 128)], [(1, 128, 64), (1, 64, 1)]
    gate = [(1, 624, 8), (1, 8, 128)]
    np.testing.assert_allclose(flops("mmoe"), 3 * products(*8 * expert, *3 * (gate + tower)))

    unit = [(100, 32, 80), (100, 80, 40), (100, 40, 1), (1, 100, 32)]
    np.testing.assert_allclose(
        flops("din"), 3 * products(*unit, (1, 96, 200), (1, 200, 80), (1, 80, 1))
    )


def record(contender: str, vocabulary: int, speed: float, **other: Any) -> dict[str, Any]:
    parts = dict.fromkeys(("auc", "device", "input_wait"))
    return {
        "contender": contender,
        "precision": "float32",
        "vocabulary": vocabulary,
        "rows_per_second": speed,
        **parts,
        "peak": 100.0,
        "weights": 3.0,
        "slots": 6.0,
        **other,
    }


def cells(table: Table) -> list[dict[str, str]]:
    names = [str(column.header) or str(index) for index, column in enumerate(table.columns)]
    columns = [list(column.cells) for column in table.columns]
    return [dict(zip(names, map(str, row), strict=True)) for row in zip(*columns, strict=True)]


def test_medians_ratios_and_shares() -> None:
    ours = [
        record("ours", 11, speed, auc=auc) for speed, auc in ((500, 0.7), (700, None), (9, None))
    ]
    peer = [record("FuxiCTR", 11, speed) for speed in (100, 300, 200)]
    failed = {"contender": "torch-rechub", "precision": "float32", "vocabulary": 11, "error": "no"}
    peak = {"float32": 1e3 * flops("mmoe"), "bfloat16": 0.0}

    first, second, third = cells(tables.speeds("mmoe", 11, [*ours, *peer, failed], peak))

    assert (first["rows/s"], first["lowest, highest"]) == ("500", "9, 700")
    assert (first[": FuxiCTR"], second[": FuxiCTR"]) == ("2.50", "1.00")
    assert (first["of the peak"], first["AUC"], second["AUC"]) == ("50.0%", "0.7000", "")
    assert third["rows/s"] == "failed"


def test_of_a_peak_that_is_not_known_there_is_no_share() -> None:
    """As where the process that looks for it failed: the speeds are shown all the same."""
    peak = {"float32": 0.0, "bfloat16": 0.0}
    (row,) = cells(tables.speeds("mmoe", 11, [record("ours", 11, 500)], peak))
    assert (row["rows/s"], row["of the peak"]) == ("500", "")
    assert tables.peaks(peak) == "Peak: float32 not known, bfloat16 not known"
    assert tables.peaks({"float32": 4.2e11}) == "Peak: float32 420 GFLOP/s"


def test_what_a_processor_cannot_do_is_skipped_and_has_not_failed() -> None:
    one = {"contender": "FuxiCTR", "precision": "mixed_bfloat16", "vocabulary": 11}
    missing = [{**one, "skipped": "slow"}, {**one, "contender": "ours", "error": "no"}]
    rows = cells(tables.speeds("mmoe", 11, missing, {"float32": 0.0, "bfloat16": 0.0}))
    assert [row["rows/s"] for row in rows] == ["skipped", "failed"]
    requests = [{"model": "din", "precision": "mixed_bfloat16", "skipped": "slow"}]
    assert [row["rows/s one by one"] for row in cells(tables.requests(requests))] == ["skipped"]


def test_speeds_by_vocabulary() -> None:
    records = [record("ours", size, speed) for size, speed in ((11, 200), (13, 190), (17, 50))]
    (row,) = cells(tables.vocabularies("din", records))
    assert [row[size] for size in ("11", "13", "17")] == ["200 /s", "0.95", "0.25"]


@pytest.mark.parametrize(("way", "expected"), [("one by one", "30"), ("requests", "60")])
def test_requests_are_medians_of_the_rounds(way: str, expected: str) -> None:
    runs = [
        {"model": "din", "precision": "float32", "one by one": one, "requests": many}
        for one, many in ((10, 60), (30, 90), (40, 40))
    ]
    (row,) = cells(tables.requests(runs))
    column = {"one by one": "rows/s one by one", "requests": "in requests"}[way]
    assert row[column] == expected
    assert row["ratio"] == "3.00"
