"""The prediction logger: a sample of whole requests, none of which waits or fails."""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    prediction_log_pb2,
    regression_pb2,
)

from serving.common.sampling import is_sampled
from serving.observability.prediction_log import log_files as files_module
from serving.observability.prediction_log.log_files import LogFiles
from serving.observability.prediction_log.logger import PredictionLogger
from tests.serving.conftest import wait_until
from tests.serving.observability.prediction_log.calls import (
    answered,
    finished,
    finished_files,
    left_over,
    rows,
)
from tests.serving.stubs import predict


def record(entry: dict[str, Any]) -> prediction_log_pb2.PredictionLog:
    return prediction_log_pb2.PredictionLog.FromString(entry["log"])


def test_row_is_a_prediction_log(tmp_path: Path) -> None:
    before = time.time()
    logger = PredictionLogger(LogFiles(tmp_path), 1.0)
    call = answered("r1")
    logger.observe(call)
    logger.close()
    (found,) = rows(tmp_path)
    assert before - 1 <= found["time"].timestamp() <= time.time()
    expected = ("r1", "tiny", 5, "Predict", "serving_default", 2.0)
    names = ("request_id", "model", "version", "method", "signature", "milliseconds")
    assert tuple(found[name] for name in names) == expected
    log = record(found)
    assert log.WhichOneof("log_type") == "predict_log"
    assert log.predict_log.request == call.message
    assert log.predict_log.response == call.response
    spec = log.log_metadata.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("tiny", 5, "serving_default")
    assert log.log_metadata.sampling_config.sampling_rate == 1.0
    assert log.log_metadata.timestamp_secs == int(found["time"].timestamp())


def test_every_method_has_its_field(tmp_path: Path) -> None:
    methods = (
        ("classify_log", classification_pb2, "Classification"),
        ("regress_log", regression_pb2, "Regression"),
        ("multi_inference_log", inference_pb2, "MultiInference"),
    )
    logger = PredictionLogger(LogFiles(tmp_path), 1.0)
    for field, protos, name in methods:
        message, answer = (getattr(protos, f"{name}{end}")() for end in ("Request", "Response"))
        logger.observe(finished(message, answer, field, api="any"))
    logger.close()
    found = {entry["request_id"]: record(entry).WhichOneof("log_type") for entry in rows(tmp_path)}
    assert found == {field: field for field, *_ in methods}


def test_sample_is_by_id_and_has_no_errors(tmp_path: Path) -> None:
    logger = PredictionLogger(LogFiles(tmp_path), 0.3)
    names = [f"r{number}" for number in range(300)]
    for name in names:
        logger.observe(answered(name))
        logger.observe(dataclasses.replace(answered(name), response=None))
        logger.observe(answered(""))  # sampled by a random id
    logger.close()
    expected = [name for name in names if is_sampled(name, 0.3, "log")]
    found = [entry["request_id"] for entry in rows(tmp_path)]
    assert [name for name in found if name] == expected
    assert 50 < found.count("") < 130
    assert (logger.written, logger.dropped, logger.failed) == (len(found), 0, 0)


def test_full_queue_drops_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, reached = threading.Event(), threading.Event()
    append = LogFiles.append

    def slow(self: LogFiles, row: Any) -> None:
        reached.set()
        go_on.wait(10)
        append(self, row)

    monkeypatch.setattr(LogFiles, "append", slow)
    logger = PredictionLogger(LogFiles(tmp_path), 1.0, queue_size=3)
    logger.observe(answered("0"))
    assert reached.wait(10)
    for number in range(1, 11):
        logger.observe(answered(str(number)))
    assert logger.dropped == 7
    go_on.set()
    logger.close()
    assert [entry["request_id"] for entry in rows(tmp_path)] == ["0", "1", "2", "3"]


def test_quiet_server_writes_its_file_in_time(tmp_path: Path) -> None:
    logger = PredictionLogger(LogFiles(tmp_path, max_seconds=0.05), 1.0)
    logger.observe(answered("r"))
    wait_until(lambda: len(finished_files(tmp_path)) == 1)
    assert logger.written == 1
    logger.close()
    assert len(finished_files(tmp_path)) == 1


@pytest.mark.parametrize("when", ["open", "write_table", "rename"])
def test_full_disk_is_logged_once_and_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    logger = PredictionLogger(LogFiles(tmp_path, max_rows=1), 1.0)
    with caplog.at_level(logging.ERROR), monkeypatch.context() as patch:
        patch.setattr(files_module.pq if when == "write_table" else Path, when, fail)
        for number in range(5):
            logger.observe(answered(str(number)))
        wait_until(lambda: logger.failed >= 4)  # the last waits in its file
    messages = [entry.message for entry in caplog.records]
    assert len(messages) == 1
    assert "No space left on device" in messages[0]
    for number in range(5, 8):
        logger.observe(answered(str(number)))
    logger.close()
    assert [entry["request_id"] for entry in rows(tmp_path)][-3:] == ["5", "6", "7"]
    assert logger.failed + logger.written == 8
    assert left_over(tmp_path) == []


class Broken:
    """A trace without attributes."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no such thing")


@pytest.mark.parametrize(
    "call",
    [
        Broken(),
        finished(predict(), predict(), "r"),  # not a response
        finished(prediction_log_pb2.PredictionLog(), predict(), "r"),
        finished("text", "text", "r"),
    ],
    ids=["broken", "response", "request", "text"],
)
def test_request_that_cannot_be_logged_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, call: Any
) -> None:
    logger = PredictionLogger(LogFiles(tmp_path), 1.0)
    with caplog.at_level(logging.ERROR):
        logger.observe(call)
        logger.observe(call)
        logger.observe(answered("good"))
        logger.close()
    assert len(caplog.records) == 1
    assert (logger.failed, logger.written) == (2, 1)


def test_requests_after_close_are_dropped(tmp_path: Path) -> None:
    logger = PredictionLogger(LogFiles(tmp_path), 1.0)
    logger.close()
    logger.close()
    logger.observe(answered("late"))
    assert (logger.dropped, list(tmp_path.iterdir())) == (1, [])


def test_every_request_is_logged_or_counted(tmp_path: Path) -> None:
    loggers = [
        PredictionLogger(LogFiles(tmp_path, max_rows=13, max_seconds=0.01), 1.0, queue_size=29)
        for _ in range(2)
    ]

    def send(thread: int) -> None:
        for number in range(150):
            loggers[thread % 2].observe(answered(f"{thread}-{number}", 1 + number % 7))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for logger in loggers:
        logger.close()
    found = rows(tmp_path)
    names = [entry["request_id"] for entry in found]
    assert len(set(names)) == len(names) == sum(logger.written for logger in loggers)
    assert len(names) + sum(logger.dropped for logger in loggers) == 900
    assert all(record(entry).HasField("predict_log") for entry in found)
    assert [logger.failed for logger in loggers] == [0, 0]
    assert left_over(tmp_path) == []
