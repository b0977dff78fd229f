"""Files of rows: whole or not at all, rotated, bounded, and shared by several writers."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serving.observability.prediction_log import files as module
from serving.observability.prediction_log.files import LogFiles, Row
from tests.serving.observability.prediction_log.calls import finished_files, left_over, rows

WRITER = """
import sys, time
from pathlib import Path
from serving.observability.prediction_log import files
files._ROW_GROUP_ROWS = 3
if "tensorflow" in sys.modules: raise SystemExit("slow")
log = files.LogFiles(Path(sys.argv[1]), 11, 2**20, 60.0, 2**30)
for number in range(10**9):
    log.append(files.Row(number, str(number), "m", 1, "Predict", "s", 1.0, b"x" * 100))
    print(number, flush=True)
"""


def make(folder: Path, **limits: float) -> LogFiles:
    defaults = {"max_rows": 7, "max_bytes": 2**20, "max_seconds": 60.0, "max_total_bytes": 2**30}
    return LogFiles(folder, **{**defaults, **limits})


def row(number: int, size: int = 10) -> Row:
    log = random.Random(number).randbytes(size)  # which does not compress
    return Row(number, str(number), "tiny", 5, "Predict", "rank", 1.5, log)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    log = make(tmp_path)
    for number in range(17):
        log.append(row(number))
    log.finish()
    found = rows(tmp_path)
    assert [entry.pop("time").timestamp() for entry in found] == [n / 1e6 for n in range(17)]
    assert found == [dict(list(row(n)._asdict().items())[1:]) for n in range(17)]
    assert len(finished_files(tmp_path)) == 3  # of 7 rows at most
    assert (log.written, log.lost, left_over(tmp_path)) == (17, 0, [])


def test_nothing_is_written_without_rows(tmp_path: Path) -> None:
    log = make(tmp_path / "new")
    log.finish()
    log.abandon()
    assert list((tmp_path / "new").iterdir()) == []
    assert log.seconds_left is None


def test_a_file_is_no_larger_than_its_bound_unless_one_row_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROW_GROUP_BYTES", 500)
    log = make(tmp_path, max_rows=10**6, max_bytes=2000)
    for number in range(40):
        log.append(row(number, 5000 if number == 20 else 300))
    log.finish()
    lengths = [[len(entry["log"]) for entry in rows_of(path)] for path in finished_files(tmp_path)]
    assert [5000] in lengths
    assert all(sum(part) <= 2000 for part in lengths if part != [5000])
    assert sum(map(len, lengths)) == 40


def rows_of(path: Path) -> list[dict[str, object]]:
    return module.pq.ParquetFile(path).read().to_pylist()


def test_an_old_file_is_finished_by_the_next_row(tmp_path: Path) -> None:
    log = make(tmp_path, max_seconds=0.02)
    log.append(row(1))
    assert 0 < log.seconds_left <= 0.02
    time.sleep(0.03)
    assert log.seconds_left == 0
    log.append(row(2))
    log.abandon()
    assert [entry["request_id"] for entry in rows(tmp_path)] == ["1"]


def test_the_oldest_files_go_and_other_files_stay(tmp_path: Path) -> None:
    other = tmp_path / "of_the_user.parquet"
    other.write_bytes(b"x" * 100_000)
    log = make(tmp_path, max_rows=1, max_total_bytes=20_000)
    for number in range(30):
        log.append(row(number, 2000))
        own = [path for path in finished_files(tmp_path) if path != other]
        assert sum(path.stat().st_size for path in own) <= 20_000
    log.finish()
    other.unlink()
    kept = [int(entry["request_id"]) for entry in rows(tmp_path)]
    assert kept == list(range(30 - len(kept), 30))
    assert len(kept) > 1
    assert log.written == 30


def test_several_writers_share_a_folder_and_its_bound(tmp_path: Path) -> None:
    writers = [make(tmp_path, max_rows=2, max_total_bytes=15_000) for _ in range(3)]
    for number in range(60):
        writers[number % 3].append(row(number, 500))
    for writer in writers:
        writer.finish()
    assert sum(path.stat().st_size for path in finished_files(tmp_path)) <= 15_000
    assert rows(tmp_path)
    assert left_over(tmp_path) == []
    assert sum(writer.written for writer in writers) == 60


@pytest.mark.parametrize("when", ["open", "write", "rename"])
def test_a_full_disk_loses_the_unfinished_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    log = make(tmp_path, max_rows=3)
    for number in range(4):
        log.append(row(number))
    if when == "open":
        log.finish()
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail(*args: object, **kwargs: object) -> None:
        raise full

    target = {
        "open": (Path, "open"),
        "write": (module.pq.ParquetWriter, "write_table"),
        "rename": (Path, "rename"),
    }[when]
    with monkeypatch.context() as patch:
        patch.setattr(*target, fail)
        with pytest.raises(OSError, match="No space left") as caught:
            log.append(row(4)) if when == "open" else log.finish()
        assert caught.value is full
        log.abandon()
    assert log.lost == 1  # the row 3, or the row 4 where there was no file to begin
    log.append(row(5))
    log.finish()
    kept = ["0", "1", "2", *(["3"] if when == "open" else []), "5"]
    assert [entry["request_id"] for entry in rows(tmp_path)] == kept
    assert (log.written, log.lost, left_over(tmp_path)) == (len(kept), 1, [])


def test_a_killed_writer_leaves_whole_files_and_what_is_swept_away(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            if int(line) >= 300:
                process.send_signal(signal.SIGKILL)
                break
        last = max([300, *(int(line) for line in process.stdout.read().split("\n")[:-1])])
    kept = [int(entry["request_id"]) for entry in rows(tmp_path)]
    assert kept == list(range(len(kept)))
    assert last - len(kept) <= 11  # one unfinished file, and a row that was not told yet
    (half,) = left_over(tmp_path)
    log = make(tmp_path)
    log.append(row(1))
    assert half in left_over(tmp_path)  # too young to be sure
    for name in left_over(tmp_path):
        os.utime(tmp_path / name, (0, 0))
    other = make(tmp_path)
    other.append(row(2))
    assert half not in left_over(tmp_path)
    assert len(left_over(tmp_path)) == 2  # of writers that live, though old
    log.finish()
    other.finish()
    assert len(rows(tmp_path)) == len(kept) + 2
