"""Versions of real SavedModels: which one serves, and what happens to the others."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2

from serving.client import Client
from serving.common.errors import NotFound, ServingError
from serving.common.status import State
from serving.encoding.codec import encode
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install, write_warmup
from tests.serving.fakes import served
from tests.serving.models.conftest import Serve

ROW = {"user": "ann", "price": 1.0}


def _pair_request(value: np.ndarray) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = "pair"
    request.inputs["pair"].CopyFrom(encode(value))
    return request


def test_damaged_version_is_reported_until_repaired(
    serve: Serve, base_path: Path, twofold: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when no attempt is left, if the folder changes; only checksums show the damage."""
    manager = serve(base_path, max_num_load_retries=0)
    shard = install(twofold, base_path, 6) / "variables/variables.data-00000-of-00001"
    complete = shard.read_bytes()
    shard.write_bytes(b"\xff" + complete[1:])  # of the weight
    manager.poll()
    manager.poll()
    (error,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "Version 6 of model tiny failed to load: " in error.getMessage()
    assert "\n" not in error.getMessage()
    failed = manager.statuses("tiny")[0]
    assert (failed.version, failed.state) == (6, State.END)
    assert failed.error is not None
    assert failed.error.code.name == "DATA_LOSS"
    assert served(manager) == 5
    shard.write_bytes(complete)
    manager.poll()
    assert served(manager) == 6
    assert manager.statuses("tiny")[0].error is None


def test_warm_up_file_is_replayed(serve: Serve, base_path: Path) -> None:
    good = _pair_request(np.ones((3, 2), np.float32))
    write_warmup(base_path / "5", [good, good])
    assert served(serve(base_path)) == 5
    write_warmup(base_path / "5", [_pair_request(np.ones((3, 5), np.float32))])
    versions = serve(base_path).models["tiny"]
    assert not versions.is_available
    with pytest.raises(ServingError, match=r"Warmup record 1 .* input pair: expected"):
        versions.require_available()


def test_why_no_version_is_available(serve: Serve, tmp_path: Path, twofold: Path) -> None:
    def reason(path: Path) -> str:
        with pytest.raises(ServingError) as raised:
            serve(path).models["tiny"].require_available()
        return str(raised.value)

    with pytest.raises(NotFound):
        serve(tmp_path / "none").models["tiny"].require_available()
    assert f"{tmp_path}/none is not a folder" in reason(tmp_path / "none")
    assert f"{tmp_path} holds no version" in reason(tmp_path)
    assert f"such as {tmp_path}/1/saved_model.pb" in reason(tmp_path)
    assert f"Name the folder above it, {twofold.parent}" in reason(twofold)
    (tmp_path / "3").mkdir()
    assert reason(tmp_path) == (
        "Version 3 of model tiny is incomplete: saved_model.pb is missing. "
        f"Folder: {tmp_path / '3'}"
    )
    install(twofold, tmp_path / "tiny[1]", 5)
    assert "contains [ ], which TensorFlow reads as a pattern" in reason(tmp_path / "tiny[1]")


def test_no_request_fails_while_versions_change(
    base_path: Path, twofold: Path, threefold: Path, start_server: StartServer
) -> None:
    _, address = start_server(base_path)
    stop, clicks, failures = threading.Event(), [], []

    def call() -> None:
        with Client(address, model="tiny", timeout=30.0) as client:
            while not stop.is_set():
                try:
                    clicks.append(float(client.predict_rows([ROW])["click"][0]))
                except ServingError as error:
                    failures.append(error)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    with Client(address, model="tiny") as client:
        for version, export in ((6, threefold), (7, twofold), (8, threefold)):
            install(export, base_path, version)
            wait_until(lambda expected=version: client.metadata().version == expected)
        assert client.predict_rows([ROW])["click"] == [3.0]
    stop.set()
    for caller in callers:
        caller.join()
    assert not failures
    assert set(clicks) == {2.0, 3.0}
