"""Bad input is one clear sentence, and leaves no half-written folder."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.commands import error_of, hidden_or_half, invoke
from tests.support.experiments import SIMULATED, write

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
SIZES = "simulate = { rows = 3000, users = 50, items = 96 }"
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="session")
def rows(prepared: Path) -> pa.Table:
    """Good rows, as a user's Parquet file has them."""
    return pq.read_table(prepared / "data" / "train" / "part-00000.parquet").slice(0, 600)


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    return tmp_path / "clicks.parquet"


def _experiment(folder: Path, *changes: tuple[str, str]) -> Path:
    text = SIMULATED.replace('source = "simulate"', 'source = "parquet"')
    text = text.replace(SIZES, f'path = "{folder / "clicks.parquet"}"')
    return write(folder, *changes, text=text.replace('by = "time"', 'by = "hash"'))


def _ingest(folder: Path, *changes: tuple[str, str]) -> str:
    """The sentence of an ingest that fails and leaves nothing."""
    run = folder / "run"
    error = error_of(invoke("ingest", _experiment(folder, *changes), "--run-dir", run))
    assert [path.name for path in run.glob("*")] in ([], [".lock"])
    return error


def _with(name: str, values: Any) -> Change:
    def change(table: pa.Table) -> pa.Table:
        found = values(table[name].to_pylist()) if callable(values) else values
        index = table.column_names.index(name)
        return table.set_column(index, name, pa.array(found))

    return change


def _first(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [value, *values[1:]]


TABLES: dict[str, tuple[Change, str]] = {
    "missing column": (
        lambda table: table.drop_columns("price"),
        r"the column 'price' \(feature, float32\) is missing",
    ),
    "misspelt column": (
        lambda table: table.rename_columns({"item_id": "itemid"}),
        r"the column 'item_id' .* is missing. Did you mean 'itemid'\?",
    ),
    "missing label": (
        lambda table: table.drop_columns("conversion"),
        r"the column 'conversion' \(label, 0 or 1 or null\) is missing",
    ),
    "missing request": (
        lambda table: table.drop_columns("request_id"),
        r"the column 'request_id' \(data.request\) is missing",
    ),
    "strings for numbers": (
        _with("price", lambda values: list(map(str, values))),
        r"column 'price': expected float32, received string. .* declare kind = \"categorical\"",
    ),
    "numbers for strings": (
        _with("user_id", lambda values: list(range(len(values)))),
        r"column 'user_id': expected string, received int64",
    ),
    "halves for whole numbers": (
        _with("item_id", lambda values: [value + 0.5 for value in values]),
        r"column 'item_id': expected int64, .* 0|column 'item_id': expected int64",
    ),
    "values for lists": (
        _with("clicked_items", lambda values: [0] * len(values)),
        r"column 'clicked_items': expected list<int64>, received int64",
    ),
    "NaN": (_with("price", _first(float("nan"))), "'price': expected finite numbers, received nan"),
    "infinite": (_with("price", _first(-np.inf)), "'price': expected finite .*, received -inf"),
    "label of 2": (_with("click", _first(2)), "'click': expected a label of 0, 1 .*received 2.* 0"),
    "label of a half": (_with("click", _first(0.5)), "'click': .* received 0.5 in row 0"),
    "label in words": (
        _with("click", lambda values: ["yes"] * len(values)),
        "'click': expected a label of 0, 1 or null, received string",
    ),
    "no positives": (
        _with("conversion", lambda values: [0] * len(values)),
        "task 'conversion' has no positive rows in the split 'train'",
    ),
    "no labels": (
        _with("conversion", lambda values: pa.nulls(len(values), pa.int8())),
        "task 'conversion' has no positive rows in the split 'train': of 0 rows with a known label",
    ),
    "no rows": (lambda table: table.slice(0, 0), r"clicks.parquet: holds no rows"),
    "few rows": (lambda table: table.slice(0, 5), r"The split '\w+' is empty: 5 rows were split"),
    "two users in a request": (
        _with("user_id", lambda values: [f"{user}{row % 2}" for row, user in enumerate(values)]),
        r"clicks.parquet: column 'user_id' .*expected one value per request, .* row \d",
    ),
    "requests in pieces": (
        lambda table: table.take(np.random.default_rng(3).permutation(table.num_rows)),
        r"clicks.parquet: the rows of a request must follow each other",
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_rows_that_are_not_as_the_schema_says(
    tmp_path: Path, clicks: Path, rows: pa.Table, case: str
) -> None:
    change, message = TABLES[case]
    pq.write_table(change(rows), clicks)
    error = _ingest(tmp_path)
    assert re.search(message, error), error
    if "split" not in message and "task" not in message:
        assert "clicks.parquet" in error


@pytest.mark.parametrize("damage", ["truncated", "no footer", "empty", "CSV"])
def test_a_file_that_is_not_whole(
    tmp_path: Path, clicks: Path, rows: pa.Table, damage: str
) -> None:
    pq.write_table(rows, clicks)
    content = clicks.read_bytes()
    damaged = {
        "truncated": content[: len(content) // 2],
        "no footer": content[:-9],
        "empty": b"",
        "CSV": b"a,b\n1,2\n",
    }[damage]
    clicks.write_bytes(damaged)
    assert f"{clicks}: is not a complete Parquet file" in _ingest(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("clicks.parquet", "click.parquet"), r"no file or folder is at .*Did you mean .*clicks.p"),
        (('path = "', 'path = "${NOT_SET_ANYWHERE}'), "needs the environment variable NOT_SET_ANY"),
        (("valid = 0.1", "valid = 0"), "The split 'valid' is empty: 600 rows were split by hash"),
        (("epochs = 2", "epoch = 2"), "`training.epoch` is not a known key. Did you mean `epochs`"),
        (("expert_units = [8]", "expert_units = []"), "The model 'attention_ranker' cannot be bu"),
    ],
)
def test_an_experiment_that_does_not_fit(
    tmp_path: Path, clicks: Path, rows: pa.Table, change: tuple[str, str], message: str
) -> None:
    pq.write_table(rows, clicks)
    assert re.search(message, _ingest(tmp_path, change))


def test_a_full_disk_while_ingesting(
    tmp_path: Path, clicks: Path, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(rows, clicks)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", _no_space)
    assert f"No space left on the disk while writing {tmp_path}" in _ingest(tmp_path)


@pytest.mark.parametrize(
    ("step", "function"),
    [("fit", "pyarrow.parquet.write_table"), ("train", "keras.Model.save")],
)
def test_a_full_disk_in_a_later_step_leaves_the_earlier_ones(
    tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch, step: str, function: str
) -> None:
    run = tmp_path / "run"
    os.symlink(prepared / "data", _made(run) / "data")
    if step == "train":
        os.symlink(prepared / "features", run / "features")
    monkeypatch.setattr(function, _no_space)
    result = invoke(step, write(tmp_path), "--run-dir", run, "--set", "training.epochs=1")
    assert f"No space left on the disk while writing {run}" in error_of(result)
    assert hidden_or_half(run) == []
    assert not (run / "model").exists()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _no_space(*args: object, **kwargs: object) -> None:
    raise FULL
