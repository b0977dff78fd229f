"""The training benchmark: its data, its measurements and the numbers in its tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.table import Table
from sklearn.metrics import roc_auc_score

from benchmarks.peers import contender, contenders, data, peak, tables
from benchmarks.peers.operations import flops
from benchmarks.peers.ours_model import blocks_of, inputs_of, make_model, make_schema
from benchmarks.peers.settings import (
    BATCHES,
    FIELDS,
    HISTORY,
    RESERVED,
    TASKS,
    TITLES,
    WITH_TASKS,
    Settings,
)

UNKNOWN_PEAK = {"float32": 0.0, "bfloat16": 0.0}


@pytest.mark.parametrize("model", ["autoint", "din", "dien", "mmoe", "ple"])
def test_data_is_fixed_by_its_seed_and_can_be_learned(tmp_path: Path, model: str) -> None:
    batches = []
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        settings = Settings(model, 7919, 61, str(tmp_path / folder))
        data.save(settings, 3001, 1009, seed)
        batches.append(data.load(settings, "train"))
    np.testing.assert_array_equal(batches[0].candidate, batches[1].candidate)
    np.testing.assert_array_equal(batches[0].labels, batches[1].labels)
    assert not np.array_equal(batches[0].candidate, batches[2].candidate)
    assert 0.65 < contender.best_auc(settings) < 0.9

    batch = data.load(settings, "test")
    assert batch.candidate.shape == (1009, 1, 1 if settings.has_history else FIELDS)
    assert batch.labels.shape == (1009, 1, len(TASKS) if model in WITH_TASKS else 1)
    assert set(np.unique(batch.labels)) == {0.0, 1.0}
    blocks = [batch.candidate]
    if batch.context is not None:
        assert batch.context.shape == (1009, 1 + HISTORY)
        blocks.append(batch.context)
    assert all(RESERVED <= ids.min() < ids.max() < settings.table_rows for ids in blocks)


class Popularity:
    """A contender that scores an id by its share of clicks."""

    def __init__(self, settings: Settings) -> None:
        self.clicks = np.ones((2, settings.table_rows))
        self.rows: list[int] = []

    def step(self, batch: data.Batch) -> float:
        ids = batch.candidate[:, 0, 0]
        np.add.at(self.clicks[0], ids, batch.labels[:, 0, 0])
        np.add.at(self.clicks[1], ids, 1.0)
        self.rows.append(len(batch))
        return 0.5

    def scores(self, batch: data.Batch) -> np.ndarray:
        return (self.clicks[0] / self.clicks[1])[batch.candidate]

    def memory(self) -> Mapping[str, float]:
        return {"weights": 2.0 * contender.MEGABYTE, "slots": 0.0}


def test_contender_prints_its_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings("din", 401, 53, str(tmp_path / "data"), warm_up=2, steps=3, auc_steps=7)
    data.save(settings, 5 * 53, 499)
    monkeypatch.setattr(sys, "argv", ["contender", json.dumps(vars(settings))])
    made: list[Popularity] = []

    def make(settings: Settings) -> Popularity:
        made.append(Popularity(settings))
        return made[0]

    contender.run(make)
    found = contender.Measured(**json.loads(capsys.readouterr().out))

    assert made[0].rows == [53] * 7  # rows are read again where the steps need more
    assert found.rows_per_second > 0
    assert found.peak > 10
    assert (found.weights, found.slots, found.loss) == (2.0, 0.0, 0.5)
    test = data.load(settings, "test")
    expected = roc_auc_score(test.labels.ravel(), made[0].scores(test).ravel())
    np.testing.assert_allclose(found.auc, expected, rtol=0, atol=1e-12)


def test_contenders_take_turns_and_a_failure_has_its_reason() -> None:
    ours = contenders.ours(["tensorflow", "parquet"], ["float32"], [False, True], [None])
    peers = contenders.peers("autoint8", Path("python"), ["float32"])
    assert [entry.name for entry in contenders.in_turns(ours, peers)] == [
        "ours",
        "FuxiCTR",
        "ours, XLA",
        "DeepCTR-Torch",
        "ours from Parquet",
        "torch-rechub",
    ]
    assert contenders.peers("autoint", None, ["float32"]) == []
    able = contenders.peers("dien", Path("python"), ["float32", contenders.LOW])
    assert [entry.name for entry in able] == ["DeepCTR-Torch", "torch-rechub"]
    missing = contenders.Entry("none", "no_such_module")
    assert "no_such_module" in missing.run(Settings("din", 401, 53, ""))["error"]


@pytest.mark.parametrize(("seconds", "is_measured"), [(1.9, True), (2.1, False)])
def test_peak_skips_a_precision_that_is_too_slow(
    monkeypatch: pytest.MonkeyPatch, seconds: float, is_measured: bool
) -> None:
    """On a clock that only the products move; the trial has 64 times fewer operations."""
    now = 0.0
    monkeypatch.setattr(peak, "time", SimpleNamespace(perf_counter=lambda: now))

    def make(dtype: str, part: int) -> tuple[peak.Product, bool]:
        def run() -> None:
            nonlocal now
            now += seconds / part**3

        return run, False

    expected = pytest.approx(2 * 2048**3 / seconds) if is_measured else None
    assert peak.peak(make, "bfloat16") == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", [*BATCHES, "din_encoded"])
def test_ours_gives_a_logit_for_each_task(model: str) -> None:
    settings = Settings(model, 400, 5, "")
    rows = np.arange(RESERVED, RESERVED + 5, dtype="int32")[:, None]
    context = np.repeat(rows, 1 + HISTORY, axis=1) if settings.has_history else None
    candidate = np.repeat(rows, 1 if settings.has_history else FIELDS, axis=1)[:, None]
    batch = data.Batch(context, candidate, np.zeros((5, 1, len(settings.tasks)), "float32"))
    logits = make_model(settings, make_schema(settings))(inputs_of(blocks_of(batch)))
    shapes = {name: tuple(logit.shape) for name, logit in logits.items()}
    assert shapes == dict.fromkeys(settings.tasks, (5, 1))


@pytest.mark.parametrize("model", BATCHES)
def test_every_model_has_a_title_and_operations(model: str) -> None:
    assert TITLES[model]
    assert flops(model) > 0


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


def test_operations_of_cross_networks_and_of_mixed_experts() -> None:
    deep = [(1, 624, 400), (1, 400, 400), (1, 400, 400)]
    cross = [(1, 624, 624)] * 3
    np.testing.assert_allclose(flops("dcnv2"), 3 * products(*cross, *deep, (1, 1024, 1)))
    np.testing.assert_allclose(flops("deepfm"), 3 * products(*deep, (1, 400, 1)))

    first = 8 * [(1, 624, 256), (1, 256, 128)] + 3 * [(1, 624, 4), (1, 4, 128)]
    shared = [(1, 624, 8), (1, 8, 128)]  # the last layer has no such gate
    second = 8 * [(1, 128, 256), (1, 256, 128)] + 3 * [(1, 128, 4), (1, 4, 128)]
    towers = 3 * [(1, 128, 64), (1, 64, 1)]
    np.testing.assert_allclose(flops("ple"), 3 * products(*first, *shared, *second, *towers))


def test_operations_of_recurrences() -> None:
    gru = [(100, 32, 96), (100, 32, 96)]  # of the inputs, of the states
    attention = [(1, 32, 32), (100, 32, 1)]
    last = [(1, 96, 200), (1, 200, 80), (1, 80, 1)]
    np.testing.assert_allclose(flops("dien"), 3 * products(*gru, *gru, *attention, *last))


def record(contender: str, vocabulary: int, speed: float, **other: Any) -> dict[str, Any]:
    return {
        "contender": contender,
        "precision": "float32",
        "vocabulary": vocabulary,
        "rows_per_second": speed,
        **dict.fromkeys(("auc", "device", "input_wait")),
        "peak": 100.0,
        "weights": 3.0,
        "slots": 6.0,
        **other,
    }


def cells(table: Table) -> list[dict[str, str]]:
    names = [str(column.header) or str(index) for index, column in enumerate(table.columns)]
    columns = [list(column.cells) for column in table.columns]
    return [dict(zip(names, map(str, row), strict=True)) for row in zip(*columns, strict=True)]


def test_table_of_speeds() -> None:
    runs = [
        record("ours", 11, speed, auc=auc) for speed, auc in ((500, 0.7), (700, None), (9, None))
    ]
    runs += [record("FuxiCTR", 11, speed) for speed in (100, 300, 200)]
    one = {"precision": "float32", "vocabulary": 11}
    runs.append({**one, "contender": "torch-rechub", "error": "no"})
    runs.append({**one, "contender": "DeepCTR-Torch", "skipped": "slow"})
    known = {"float32": 1e3 * flops("mmoe"), "bfloat16": 0.0}

    first, second, *others = cells(tables.speeds("mmoe", 11, runs, known))

    assert (first["rows/s"], first["lowest, highest"]) == ("500", "9, 700")
    assert (first[": FuxiCTR"], second[": FuxiCTR"]) == ("2.50", "1.00")
    assert (first["of the peak"], first["AUC"], second["AUC"]) == ("50.0%", "0.7000", "")
    assert [row["rows/s"] for row in others] == ["failed", "skipped"]
    (row,) = cells(tables.speeds("mmoe", 11, [record("ours", 11, 500)], UNKNOWN_PEAK))
    assert (row["rows/s"], row["of the peak"]) == ("500", "")
    assert tables.peaks(UNKNOWN_PEAK) == "Peak: float32 not known, bfloat16 not known"
    assert tables.peaks({"float32": 4.2e11}) == "Peak: float32 420 GFLOP/s"


def test_tables_of_vocabularies_and_of_requests() -> None:
    records = [record("ours", size, speed) for size, speed in ((11, 200), (13, 190), (17, 50))]
    (row,) = cells(tables.vocabularies("din", records))
    assert [row[size] for size in ("11", "13", "17")] == ["200 /s", "0.95", "0.25"]

    runs: list[dict[str, Any]] = [
        {"model": "din", "precision": "float32", "one by one": one, "requests": many}
        for one, many in ((10, 60), (30, 90), (40, 40))
    ]
    (row,) = cells(tables.requests(runs))
    assert (row["rows/s one by one"], row["in requests"], row["ratio"]) == ("30", "60", "3.00")
