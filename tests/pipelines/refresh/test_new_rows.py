"""The newest files are held out, and trained on later; no file is trained on twice."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.refresh.new_rows import NewRows, trained_files


def hours(folder: Path, rows: Sequence[int]) -> list[str]:
    paths = [folder / f"2026-11-29T{hour:02}.parquet" for hour in range(len(rows))]
    for path, count in zip(paths, rows, strict=True):
        pq.write_table(pa.table({"x": range(count)}), path)
    return [path.name for path in paths]


def test_newest_fifth_tests_and_a_tenth_before_validates(tmp_path: Path) -> None:
    names = hours(tmp_path, [10] * 10)
    rows = NewRows.choose(tmp_path, ())
    assert rows == NewRows(tuple(names[:7]), (names[7],), tuple(names[8:]))


def test_every_split_has_a_file_however_large(tmp_path: Path) -> None:
    names = hours(tmp_path, [1, 1, 1_000])
    assert NewRows.choose(tmp_path, ()) == NewRows((names[0],), (names[1],), (names[2],))
    names = hours(tmp_path, [1_000, 1, 1])
    assert NewRows.choose(tmp_path, ()) == NewRows((names[0],), (names[1],), (names[2],))


def test_held_out_rows_are_trained_on_next(tmp_path: Path) -> None:
    names = hours(tmp_path, [10] * 5)
    first = NewRows.choose(tmp_path, ())
    assert first is not None
    run = tmp_path / "run"
    run.mkdir()
    first.save(run)
    assert NewRows.load(run) == first
    after = hours(tmp_path, [10] * 8)
    second = NewRows.choose(tmp_path, trained_files([run]))
    assert second is not None
    assert {*first.valid, *first.test} <= {*second.train, *second.valid}
    assert [*first.train, *second.train, *second.valid, *second.test] == after
    assert names == after[:5]


def test_hours_without_rows_do_not_count(tmp_path: Path) -> None:
    hours(tmp_path, [10, 0, 10, 0])
    assert NewRows.choose(tmp_path, ()) is None


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="--data: expected the folder of rows"):
        NewRows.choose(tmp_path / "rows", ())
