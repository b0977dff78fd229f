"""The requests of a warm-up file, of every kind, and its errors."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tensorflow_serving.apis import prediction_log_pb2

from serving.common.errors import FailedPrecondition, ServingError
from serving.models.warmup import MAX_WARMUP_RECORDS, warm_up
from tests.serving.exports import WARMUP_FILE, write_warmup

Log = prediction_log_pb2.PredictionLog


def _log(kind: str, *names: str) -> bytes:
    """A record of requests for models of these names."""
    log = Log()
    request = getattr(log, f"{kind}_log")
    request.SetInParent()
    for name in names:
        if kind == "predict_streamed":
            request.request.add().model_spec.name = name
        else:
            one = request.request.tasks.add() if kind == "multi_inference" else request.request
            one.model_spec.name = name
    return log.SerializeToString()


def _warm(path: Path, *records: bytes, iterations: int = 1) -> list[Any]:
    write_warmup(path, records=records)
    replayed: list[Any] = []
    count = warm_up(SimpleNamespace(path=path), replayed.append, iterations)
    assert count == len(records)
    return replayed


def test_every_kind_of_request_is_replayed(tmp_path: Path) -> None:
    kinds = ("predict", "classify", "regress", "multi_inference", "predict_streamed")
    replayed = _warm(tmp_path, *[_log(kind, kind) for kind in kinds])
    names = ("Predict", "Classification", "Regression", "MultiInference", "Predict")
    assert [type(request).__name__ for request in replayed] == [f"{n}Request" for n in names]
    specs = [getattr(request, "tasks", [request])[0].model_spec for request in replayed]
    assert [spec.name for spec in specs] == list(kinds)


def test_each_record_is_repeated(tmp_path: Path) -> None:
    assert warm_up(SimpleNamespace(path=tmp_path), pytest.fail) == 0, "no file"
    records = [_log("predict", name) for name in "ab"]
    replayed = _warm(tmp_path, *records, iterations=3)
    assert [request.model_spec.name for request in replayed] == list("aaabbb")


BAD = {
    "session-run": ([_log("session_run")], "UNIMPLEMENTED",
                    r"Unsupported log_type for warmup: 5 \(session_run_log\)"),
    "no-kind": ([b""], "UNIMPLEMENTED", "Unsupported log_type for warmup: 0"),
    "empty-stream": ([_log("predict_streamed")], "INVALID_ARGUMENT",
                     "predict_streamed_log does not contain any requests"),
    "long-stream": ([_log("predict_streamed", "a", "b")], "INVALID_ARGUMENT",
                    "predict_streamed_log contains more than one request"),
    "not-a-log": ([b"\xff\xff"], "INVALID_ARGUMENT", "Failed to parse warmup record: .*is not a"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_invalid_record(tmp_path: Path, case: str) -> None:
    records, code, words = BAD[case]
    with pytest.raises(ServingError, match=f"Warmup record 2 of .*{words}") as raised:
        _warm(tmp_path, _log("predict", "p"), *records)
    assert raised.value.code.name == code


def test_failed_request_keeps_its_code(tmp_path: Path) -> None:
    def fail(request: Any) -> None:
        raise FailedPrecondition("no such signature")

    write_warmup(tmp_path, records=[_log("predict", "p")])
    with pytest.raises(ServingError, match=r"Warmup record 1 of .*: no such signature") as raised:
        warm_up(SimpleNamespace(path=tmp_path), fail)
    assert raised.value.code.name == "FAILED_PRECONDITION"


def test_too_many_records(tmp_path: Path) -> None:
    record = _log("predict", "p")
    assert len(_warm(tmp_path / "most", *[record] * MAX_WARMUP_RECORDS)) == MAX_WARMUP_RECORDS
    with pytest.raises(ServingError, match="Number of warmup records exceeds the maximum"):
        _warm(tmp_path / "over", *[record] * (MAX_WARMUP_RECORDS + 1))


@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        (slice(1, None), "corrupted record at 0 (Is this even a TFRecord file?)"),
        (slice(-1), "truncated record at 0' failed with Read less bytes than requested"),
    ],
    ids=["other", "cut"],
)
def test_damaged_file_is_data_loss(tmp_path: Path, kept: slice, reason: str) -> None:
    write_warmup(tmp_path, records=[_log("predict", "p")])
    file = tmp_path / WARMUP_FILE
    file.write_bytes(file.read_bytes()[kept])
    with pytest.raises(ServingError) as raised:
        warm_up(SimpleNamespace(path=tmp_path), pytest.fail)
    asked = f"Please verify your warmup data is in TFRecord format: {file}"
    assert str(raised.value) == f"{reason}. {asked}"
    assert raised.value.code.name == "DATA_LOSS"
