"""A state of the train rows: a chain of runs that train on held-out rows later counts each once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.ingest.data_options import DataOptions
from tests.pipelines.ingest.test_behind import cells, sorted_log
from tests.serving.state.logs import NAMES, ingested

BY_FILE: dict[str, Any] = {"split": {"by": "provided"}, "request": "request"}


def files_of(folder: Path, log: pa.Table, count: int) -> list[Path]:
    """Cuts a log between its requests into files."""
    log = log.append_column("row", pa.array(np.arange(log.num_rows)))
    starts = np.flatnonzero(np.diff(log["request"].to_numpy())) + 1
    cuts = starts[np.arange(1, count) * len(starts) // count].tolist()
    paths = []
    for first, last in pairwise([0, *cuts, log.num_rows]):
        paths.append(folder / f"{first:03}.parquet")
        pq.write_table(log.slice(first, last - first), paths[-1])
    return paths


def split(train: list[Path], valid: Path, test: Path) -> dict[str, Any]:
    return {"train": list(map(str, train)), "valid": str(valid), "test": str(test)}


def test_held_out_rows_are_counted_when_they_are_trained_on(tmp_path: Path) -> None:
    """Three runs of 7, 2 and 2 new files, each of which holds out two."""
    log = sorted_log(3)
    whole, _ = ingested(tmp_path / "whole", log, request="request")
    files = files_of(tmp_path, log, 11)
    behind, first = None, 0
    for number in (5, 7, 9):
        train, (valid, test) = files[first:number], files[number : number + 2]
        folder = tmp_path / str(number)
        made, saved = ingested(
            folder,
            log,
            path=split(train, valid, test),
            behind=behind,
            state_of="train",
            **BY_FILE,
        )
        assert made.select(NAMES).equals(whole.filter(whole_rows(whole, made)).select(NAMES))
        assert {Path(name).name for name in saved.files} == {f.name for f in files[:number]}
        behind, first = folder, number
    _, expected = ingested(
        tmp_path / "trained",
        log,
        path=split(files[:9], files[9], files[10]),
        state_of="train",
        **BY_FILE,
    )
    assert (saved.newest, cells(saved)) == (expected.newest, cells(expected))
    rows = pa.concat_tables(map(pq.read_table, files[:9])).drop_columns("row")
    _, once = ingested(tmp_path / "once", rows, request="request")
    assert (saved.newest, cells(saved)) == (once.newest, cells(once))


def whole_rows(whole: pa.Table, some: pa.Table) -> pa.Array:
    return pa.array(np.isin(whole["row"].to_numpy(), some["row"].to_numpy()))


@pytest.mark.parametrize(
    "options", [{"path": "rows"}, {"path": split([Path("a")], Path("b"), Path("c"))}]
)
def test_state_of_train_needs_files_by_split_and_made_columns(options: Any) -> None:
    with pytest.raises(ValueError, match='`state_of` = "train" leaves out the events of files'):
        DataOptions(source="parquet", split={"by": "provided"}, state_of="train", **options)
