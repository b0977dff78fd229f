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


def _log(kind: str, **fields: Any) -> bytes:
    log = Log()
    getattr(log, kind).SetInParent()
    getattr(log, kind).request.model_spec.name = fields["name"]
    return log.SerializeToString()


def _multi_inference(name: str) -> bytes:
    log = Log()
    log.multi_inference_log.request.tasks.add().model_spec.name = name
    return log.SerializeToString()


def _streamed(*names: str) -> bytes:
    log = Log()
    log.predict_streamed_log.SetInParent()
    for name in names:
        log.predict_streamed_log.request.add().model_spec.name = name
    return log.SerializeToString()


def _warm(path: Path, *records: bytes, iterations: int = 1) -> list[Any]:
    write_warmup(path, records=records)
    replayed: list[Any] = []
    count = warm_up(SimpleNamespace(path=path), replayed.append, iterations)
    assert count == len(records)
    return replayed


def test_every_kind_of_request_is_replayed(tmp_path: Path) -> None:
    replayed = _warm(
        tmp_path,
        _log("predict_log", name="p"),
        _log("classify_log", name="c"),
        _log("regress_log", name="r"),
        _multi_inference("m"),
        _streamed("s"),
    )
    assert [type(request).__name__ for request in replayed] == [
        "PredictRequest",
        "ClassificationRequest",
        "RegressionRequest",
        "MultiInferenceRequest",
        "PredictRequest",
    ]
    assert [request.model_spec.name for request in replayed[:3]] == ["p", "c", "r"]
    assert replayed[3].tasks[0].model_spec.name == "m"
    assert replayed[4].model_spec.name == "s"


def test_each_record_is_repeated(tmp_path: Path) -> None:
    assert warm_up(SimpleNamespace(path=tmp_path), pytest.fail) == 0, "no file"
    records = [_log("predict_log", name=name) for name in "ab"]
    replayed = _warm(tmp_path, *records, iterations=3)
    assert [request.model_spec.name for request in replayed] == list("aaabbb")


SESSION = Log()
SESSION.session_run_log.SetInParent()
BAD = {
    "session-run": ([SESSION.SerializeToString()], "UNIMPLEMENTED",
                    r"Unsupported log_type for warmup: 5 \(session_run_log\)"),
    "no-kind": ([b""], "UNIMPLEMENTED", "Unsupported log_type for warmup: 0"),
    "empty-stream": ([_streamed()], "INVALID_ARGUMENT",
                     "predict_streamed_log does not contain any requests"),
    "long-stream": ([_streamed("a", "b")], "INVALID_ARGUMENT",
                    "predict_streamed_log contains more than one request"),
    "not-a-log": ([b"\xff\xff"], "INVALID_ARGUMENT", "Failed to parse warmup record: .*is not a"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_invalid_record(tmp_path: Path, case: str) -> None:
    records, code, words = BAD[case]
    with pytest.raises(ServingError, match=f"Warmup record 2 of .*{words}") as raised:
        _warm(tmp_path, _log("predict_log", name="p"), *records)
    assert raised.value.code.name == code


def test_failed_request_keeps_its_code(tmp_path: Path) -> None:
    def fail(request: Any) -> None:
        raise FailedPrecondition("no such signature")

    write_warmup(tmp_path, records=[_log("predict_log", name="p")])
    with pytest.raises(ServingError, match=r"Warmup record 1 of .*: no such signature") as raised:
        warm_up(SimpleNamespace(path=tmp_path), fail)
    assert raised.value.code.name == "FAILED_PRECONDITION"


def test_too_many_records(tmp_path: Path) -> None:
    record = _log("predict_log", name="p")
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
    write_warmup(tmp_path, records=[_log("predict_log", name="p")])
    file = tmp_path / WARMUP_FILE
    file.write_bytes(file.read_bytes()[kept])
    with pytest.raises(ServingError) as raised:
        warm_up(SimpleNamespace(path=tmp_path), pytest.fail)
    asked = f"Please verify your warmup data is in TFRecord format: {file}"
    assert str(raised.value) == f"{reason}. {asked}"
    assert raised.value.code.name == "DATA_LOSS"
