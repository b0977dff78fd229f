"""Files of rows: whole or absent, of bounded size, and shared by several writers."""

from __future__ import annotations

import os
import random
from pathlib import Path

from serving.observability.prediction_log import log_files as module
from serving.observability.prediction_log.log_files import LogFiles, Row
from tests.serving.observability.prediction_log.calls import finished_files, left_over, rows


def row(number: int, size: int = 10) -> Row:
    log = random.Random(number).randbytes(size)  # does not compress
    return Row(number, str(number), "tiny", 5, "Predict", "rank", 1.5, log)


def ids(folder: Path) -> list[int]:
    return [int(entry["request_id"]) for entry in rows(folder)]


def test_rows_are_read_back_as_written(tmp_path: Path) -> None:
    log = LogFiles(tmp_path / "new", max_rows=7)
    log.finish()
    assert left_over(tmp_path / "new") == []
    assert log.seconds_left is None
    for number in range(17):
        log.append(row(number))
    log.finish()
    found = rows(tmp_path / "new")
    assert [entry.pop("time").timestamp() for entry in found] == [n / 1e6 for n in range(17)]
    assert found == [dict(list(row(n)._asdict().items())[1:]) for n in range(17)]
    assert len(finished_files(tmp_path / "new")) == 3
    assert (log.written, log.lost, left_over(tmp_path / "new")) == (17, 0, [])


def test_file_stays_within_its_bound_unless_one_row_exceeds_it(tmp_path: Path) -> None:
    log = LogFiles(tmp_path, max_bytes=2000)
    for number in range(40):
        log.append(row(number, 5000 if number == 20 else 300))
    log.finish()
    files = [module.pq.ParquetFile(path).read() for path in finished_files(tmp_path)]
    lengths = [[len(one) for one in file["log"].to_pylist()] for file in files]
    assert [5000] in lengths
    assert all(sum(part) <= 2000 for part in lengths if part != [5000])
    assert sum(map(len, lengths)) == 40


def test_oldest_files_are_deleted_and_foreign_files_stay(tmp_path: Path) -> None:
    """Several writers share a folder and its bound."""
    other = tmp_path / "of_the_user.parquet"
    other.write_bytes(b"x" * 100_000)
    writers = [LogFiles(tmp_path, max_rows=1, max_total_bytes=20_000) for _ in range(3)]
    for number in range(30):
        writers[number % 3].append(row(number, 2000))
        own = [path for path in finished_files(tmp_path) if path != other]
        assert sum(path.stat().st_size for path in own) <= 20_000
    for writer in writers:
        writer.finish()
    other.unlink()
    kept = ids(tmp_path)
    assert sorted(kept) == list(range(30 - len(kept), 30))
    assert len(kept) > 1
    assert sum(writer.written for writer in writers) == 30
    assert left_over(tmp_path) == []


def test_temporary_files_of_killed_processes_are_deleted(tmp_path: Path) -> None:
    old, young = (tmp_path / f".{name}.parquet.tmp" for name in ("old", "young"))
    for path in (old, young):
        path.touch()
    os.utime(old, (0, 0))
    log = LogFiles(tmp_path)
    log.append(row(1))
    log.finish()
    assert left_over(tmp_path) == [young.name]
