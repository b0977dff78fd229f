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
from tests.support import shop
from tests.support.experiments import QUICK, SIMULATED, write

SIZES = "simulate = { rows = 3000, users = 50, items = 96 }"
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="session")
def rows(prepared: Path) -> pa.Table:
    """Valid rows of a user's Parquet file."""
    return pq.read_table(prepared / "data" / "train" / "part-00000.parquet").slice(0, 600)


@pytest.fixture
def clicks(tmp_path: Path, rows: pa.Table) -> Path:
    pq.write_table(rows, tmp_path / "clicks.parquet")
    return tmp_path / "clicks.parquet"


def _ingest(folder: Path, *changes: tuple[str, str]) -> str:
    """Returns the error of an ingest, which leaves no files."""
    text = SIMULATED.replace('source = "simulate"', 'source = "parquet"')
    text = text.replace(SIZES, f'path = "{folder / "clicks.parquet"}"')
    experiment = write(folder, *changes, text=text.replace('by = "time"', 'by = "hash"'))
    run = folder / "run"
    error = error_of(invoke("ingest", experiment, "--run-dir", run))
    assert [path.name for path in run.glob("*")] in ([], [".lock"])
    return error


def _with(name: str, value: Callable[[int, Any], Any]) -> Change:
    """Sets a column from the number and the value of each row."""

    def change(table: pa.Table) -> pa.Table:
        values = [value(row, old) for row, old in enumerate(table[name].to_pylist())]
        return table.set_column(table.column_names.index(name), name, pa.array(values))

    return change


# `tests/pipelines/ingest` has the other errors.
TABLES: dict[str, tuple[Change, str]] = {
    "missing request": (
        lambda table: table.drop_columns("request_id"),
        r"clicks.parquet: the column 'request_id' \(data.request\) is missing.* Columns: .*price",
    ),
    "values for lists": (
        _with("clicked_items", lambda row, old: 0),
        r"column 'clicked_items': expected list<int64>, received int64",
    ),
    "infinite": (
        _with("price", lambda row, old: old if row else -np.inf),
        "'price': expected finite .*, received -inf",
    ),
    "label in words": (
        _with("click", lambda row, old: "yes"),
        "'click': expected a label of 0, 1 or null, received string",
    ),
    "no labels": (
        lambda table: table.set_column(
            table.column_names.index("conversion"), "conversion", pa.nulls(len(table), pa.int8())
        ),
        "task 'conversion' has no positive rows in the split 'train': of 0 rows with a known label",
    ),
    "two users in a request": (
        _with("user_id", lambda row, old: f"{old}{row % 2}"),
        r"clicks.parquet: column 'user_id' .*expected one value per request, .* row \d",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", TABLES)
def test_invalid_rows_are_one_error(
    tmp_path: Path, clicks: Path, rows: pa.Table, case: str
) -> None:
    change, message = TABLES[case]
    pq.write_table(change(rows), clicks)
    error = _ingest(tmp_path)
    assert re.search(message, error), error


@pytest.mark.parametrize("how", ["cut", "empty", "text"])
def test_damaged_file_is_one_error(tmp_path: Path, clicks: Path, how: str) -> None:
    shop.damage(clicks, how)
    assert f"{clicks}: is not a complete Parquet file" in _ingest(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("clicks.parquet", "click.parquet"), r"no file or folder is at .*Did you mean .*clicks.p"),
        (('path = "', 'path = "${NOT_SET_ANYWHERE}'), "needs the environment variable NOT_SET_ANY"),
        (
            ("experts = { units = [8] }", "experts = { units = [] }"),
            "The model 'attention_ranker' cannot be bu",
        ),
    ],
)
def test_invalid_experiment_is_one_error(
    tmp_path: Path, clicks: Path, change: tuple[str, str], message: str
) -> None:
    assert re.search(message, _ingest(tmp_path, change))


def _no_space(*args: object, **kwargs: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_in_ingest_leaves_no_files(
    tmp_path: Path, clicks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pq.ParquetWriter, "write_table", _no_space)
    assert f"No space left on the disk while writing {tmp_path}" in _ingest(tmp_path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("step", "function"),
    [("fit", "pyarrow.parquet.write_table"), ("train", "keras.Model.save")],
)
def test_full_disk_leaves_the_earlier_steps(
    tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch, step: str, function: str
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "data").symlink_to(prepared / "data")
    if step == "train":
        (run / "features").symlink_to(prepared / "features")
    monkeypatch.setattr(function, _no_space)
    experiment = write(tmp_path, QUICK)
    result = invoke(step, experiment, "--run-dir", run, "--set", "training.epochs=1")
    assert f"No space left on the disk while writing {run}" in error_of(result)
    assert hidden_or_half(run) == []
    assert not (run / "model").exists()
