"""Reading a log while servers write and delete its files."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.prediction_log.log_folder import LogFolder
from serving.observability.prediction_log.log_files import LogFiles, Row
from tests.support import shop

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def write(folder: Path, calls: int = 30, model: str = "tiny", per_file: int = 7) -> Path:
    """One call an hour."""
    files = LogFiles(folder, max_rows=per_file)
    for number in range(calls):
        time = int((BEGIN + timedelta(hours=number)).timestamp() * 1e6)
        files.append(Row(time, str(number), model, 3, "Predict", "rank", 1.0, b"log"))
    files.finish()
    return folder


def test_calls_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / ".half.parquet.tmp").write_bytes(b"half")  # a server has not finished it
    entries = list(LogFolder.open(write(tmp_path)).entries())
    assert [entry.request_id for entry in entries] == [str(number) for number in range(30)]
    fourth = BEGIN + timedelta(hours=4)
    assert entries[4] == (fourth, "4", "tiny", 3, "Predict", "rank", b"log", "", "")


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [(5, 20, range(5, 20)), (None, 3, range(3)), (28, None, (28, 29))],
)
def test_time_range_selects_calls(
    tmp_path: Path, since: int | None, until: int | None, expected: range
) -> None:
    log = LogFolder.open(write(tmp_path))
    bounds = [None if n is None else BEGIN + timedelta(hours=n) for n in (since, until)]
    found = [int(entry.request_id) for entry in log.entries(None, *bounds)]
    assert found == list(expected)


def test_model_of_a_log_is_chosen(tmp_path: Path) -> None:
    log = LogFolder.open(write(tmp_path))
    assert log.choose_model(None) == log.choose_model("tiny") == "tiny"
    with pytest.raises(PipelineError, match=r"no call of the model 'tinny'\. Did you mean 'tiny'"):
        log.choose_model("tinny")
    log = LogFolder.open(write(tmp_path, 3, "other"))
    with pytest.raises(PipelineError, match=r"2 models: other, tiny\. Choose one with --model"):
        log.choose_model(None)
    assert log.choose_model(None, "other") == "other"
    assert len(list(log.entries("other"))) == 3


def test_logs_of_older_servers_have_no_state_and_no_label(tmp_path: Path) -> None:
    row = Row(0, "r", "tiny", 3, "Predict", "rank", 1.0, b"log", state="{}", label="canary")
    files = LogFiles(tmp_path)
    files.append(row)
    files.finish()
    log = LogFolder.open(tmp_path)
    (call,) = log.entries()
    assert (call.state, call.label) == ("{}", "canary")
    path = tmp_path / log.files[0]
    pq.write_table(pq.read_table(path).drop_columns(["state", "label"]), path)
    (call,) = log.entries()
    assert (call.state, call.label) == ("", "")


def test_deleted_log_file_is_skipped(tmp_path: Path) -> None:
    log = LogFolder.open(write(tmp_path))
    (tmp_path / log.files[1]).unlink()
    found = [int(entry.request_id) for entry in log.entries()]
    assert found == [*range(7), *range(14, 30)]


@pytest.mark.parametrize("how", ["cut", "empty", "text"])
def test_a_damaged_file_is_named(tmp_path: Path, how: str) -> None:
    log = LogFolder.open(write(tmp_path))
    shop.damage(tmp_path / log.files[2], how)
    with pytest.raises(PipelineError, match=log.files[2]):
        list(log.entries())


def test_other_files_are_not_a_log(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="gone does not exist"):
        LogFolder.open(tmp_path / "gone")
    with pytest.raises(PipelineError, match=r"holds no Parquet file.*five minutes after"):
        LogFolder.open(tmp_path)
    pq.write_table(pa.table({"time": [1]}), tmp_path / "rows.parquet")
    with pytest.raises(
        PipelineError, match=r"not a file of a prediction log: it has no column 'log'"
    ):
        LogFolder.open(tmp_path)
