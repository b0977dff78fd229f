"""Outcomes that cannot be read: one sentence, which names the file and the column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.outcomes.outcome_files import TICK, OutcomeColumns, files_of, read_outcomes
from pipelines.outcomes.row_times import RowTimes

GOOD = {"user": "u1", "item": 3, "time": 1000, "click": 1}
KEYS = pa.schema([("user", pa.string()), ("item", pa.int64())])
COLUMNS = OutcomeColumns(KEYS, RowTimes("time", pa.int64(), 1), "time", ("click", "bought"))
STAMPED = RowTimes("time", pa.timestamp("us"), 10**6)


@pytest.mark.parametrize("end", [".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"user": "u1", "itm": 3, "time": 1, "click": 1}, r"'item' .* is missing.*'itm'"),
        ({"user": "u1", "item": 3, "time": 1, "clik": 1}, "expected a column with a label: click"),
        ({**GOOD, "item": "three"}, r"'item'.*expected int64.*three|string"),
        ({**GOOD, "time": "noon"}, r"column 'time'.*noon|string"),
        ({**GOOD, "click": 7}, "'click': expected a label of 0, 1 or null"),
    ],
)
def test_wrong_outcome_is_named(tmp_path: Path, end: str, event: Any, message: str) -> None:
    path = tmp_path / f"events{end}"
    if end == ".jsonl":
        path.write_text(json.dumps(event) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([event]), path)
    with pytest.raises(PipelineError, match=rf"{path}: .*(?:{message})"):
        list(read_outcomes(path, COLUMNS))


def test_units_of_times_may_differ(tmp_path: Path) -> None:
    times = pa.array([1_000_000_000, 2_999_999_999]).cast(pa.timestamp("ns", "UTC"))
    table = pa.table({"user": ["u1"] * 2, "item": [3, 4], "time": times, "bought": [True, None]})
    pq.write_table(table, tmp_path / "0.parquet")
    columns = OutcomeColumns(KEYS, STAMPED, "time", ("click", "bought"))
    (read,) = read_outcomes(tmp_path / "0.parquet", columns)
    assert read[TICK].to_pylist() == [1_000_000, 2_999_999]
    assert (read["bought"].to_pylist(), read["click"].to_pylist()) == ([1, None], [None, None])


def test_numbers_are_no_timestamps(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([GOOD]), tmp_path / "0.parquet")
    columns = OutcomeColumns(KEYS, STAMPED, "time", ("click",))
    with pytest.raises(PipelineError, match=r"'time'.*timestamp.*Received: int64"):
        list(read_outcomes(tmp_path / "0.parquet", columns))


def test_unfinished_last_line_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "0.jsonl"
    path.write_text(json.dumps(GOOD) + '\n{"user": "u')
    (read,) = read_outcomes(path, COLUMNS)
    assert read.num_rows == 1


def test_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="expected a folder with files of events"):
        files_of(tmp_path / "gone")
    (tmp_path / "0.parquet").write_bytes(b"no Parquet")
    with pytest.raises(PipelineError, match=r"0\.parquet cannot be read"):
        list(read_outcomes(tmp_path / "0.parquet", COLUMNS))
    (tmp_path / "0.jsonl").write_text(f"text\n{json.dumps(GOOD)}\n")
    with pytest.raises(PipelineError, match=r"0\.jsonl: byte 0: expected a JSON object"):
        list(read_outcomes(tmp_path / "0.jsonl", COLUMNS))
