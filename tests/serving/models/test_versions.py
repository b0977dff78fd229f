"""Which version of a real SavedModel serves, and what happens to the others."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tensorflow_serving.apis import predict_pb2

from serving.client import Client
from serving.common.errors import NotFound, ServingError
from serving.common.status import State
from serving.config.models import ModelConfig
from serving.encoding.codec import encode
from serving.models.manager import ModelManager
from serving.server.loader import Loader
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install, write_warmup
from tests.serving.fakes import served, states
from tests.serving.traces import trace

Manage = Callable[[Path], ModelManager]
ROW = {"user": "ann", "price": 1.0}


@pytest.fixture
def manage() -> Iterator[Manage]:
    """Makes managers of one model that have polled once; they stop with the test."""
    managers = []

    def make(base_path: Path) -> ModelManager:
        manager = ModelManager([ModelConfig("tiny", base_path)], Loader(), lambda _: None)
        managers.append(manager)
        manager.poll()
        return manager

    yield make
    for manager in managers:
        manager.stop()


def _pair_request(value: np.ndarray) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = "pair"
    request.inputs["pair"].CopyFrom(encode(value))
    return request


def test_the_newest_number_isserved(manage: Manage, base_path: Path, twofold: Path) -> None:
    install(twofold, base_path, 10)
    (base_path / "latest").mkdir()
    (base_path / "77.tmp").mkdir()
    (base_path / "88").touch()
    manager = manage(base_path)
    assert served(manager) == 10
    assert states(manager) == {10: State.AVAILABLE}


def test_a_new_version_takes_over_and_the_old_one_goes(
    manage: Manage, base_path: Path, threefold: Path
) -> None:
    manager = manage(base_path)
    install(threefold, base_path, 6)
    manager.poll()
    assert served(manager) == 6
    assert states(manager) == {6: State.AVAILABLE, 5: State.END}
    with pytest.raises(NotFound, match=r"Specific\(tiny, 5\)"), manager.lease("tiny", 5):
        pass


def test_running_requests_keep_the_old_version(
    manage: Manage, base_path: Path, threefold: Path
) -> None:
    manager = manage(base_path)
    pair = {"pair": np.float32([[1, 2]])}
    with manager.lease("tiny") as model:
        install(threefold, base_path, 6)
        manager.poll()
        assert states(manager) == {6: State.AVAILABLE, 5: State.UNLOADING}
        assert model.version == 5
        found = model.signature("pair").run(pair, ["total"], trace("Predict"))
        np.testing.assert_array_equal(found["total"], [3])
    wait_until(lambda: states(manager) == {6: State.AVAILABLE, 5: State.END})


def test_a_removed_version_gives_way_to_the_one_before(
    manage: Manage, base_path: Path, twofold: Path
) -> None:
    install(twofold, base_path, 6)
    manager = manage(base_path)
    shutil.rmtree(base_path / "6")
    manager.poll()
    assert served(manager) == 5
    shutil.rmtree(base_path)
    manager.poll()
    assert served(manager) == 5, "with nothing left on disk, what serves goes on"


def test_a_half_written_version_waits_until_it_is_complete(manage: Manage, base_path: Path) -> None:
    manager = manage(base_path)
    shutil.copytree(base_path / "5", base_path / "6")
    (base_path / "6" / "saved_model.pb").rename(base_path / "pb")
    manager.poll()
    assert states(manager) == {6: State.START, 5: State.AVAILABLE}
    (base_path / "pb").rename(base_path / "6" / "saved_model.pb")
    manager.poll()
    assert served(manager) == 6


@pytest.mark.parametrize(
    "cut",
    ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"],
)
def test_a_version_that_is_cut_off_is_reported_and_the_old_one_stays(
    manage: Manage,
    base_path: Path,
    twofold: Path,
    cut: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (base_path / "6" / cut).parent.mkdir(parents=True)
    file = shutil.copytree(twofold, base_path / "6", dirs_exist_ok=True) / cut
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    manager = manage(base_path)
    manager.poll()
    words = f"Version 6 of model tiny is incomplete: {cut.partition('-')[0]} is cut off or damaged"
    assert caplog.text.count(words) == 1, "it is said once"
    waiting = manager.statuses("tiny")[0]
    assert (waiting.version, waiting.state) == (6, State.START)
    assert str(waiting.error).startswith(words)
    assert served(manager) == 5
    file.write_bytes(whole)
    manager.poll()
    assert served(manager) == 6
    assert manager.statuses("tiny")[0].error is None


def test_a_damaged_version_is_reported_and_the_old_one_stays(
    manage: Manage, base_path: Path, twofold: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By the checkpoint's own checksums: of a SavedModel from elsewhere nothing else is known."""
    manager = manage(base_path)
    shard = install(twofold, base_path, 6) / "variables/variables.data-00000-of-00001"
    whole = shard.read_bytes()
    shard.write_bytes(b"\xff" + whole[1:])  # of the weight
    manager.poll()
    manager.poll()
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "Version 6 of model tiny failed to load: " in errors[0].getMessage()
    assert "\n" not in errors[0].getMessage()
    assert len(errors) == 1, "a folder that has not changed is not tried again"
    failed = manager.statuses("tiny")[0]
    assert (failed.version, failed.state) == (6, State.END)
    assert failed.error is not None
    assert failed.error.code.name == "DATA_LOSS"
    assert served(manager) == 5
    shard.write_bytes(whole)
    manager.poll()
    assert served(manager) == 6, "a repaired folder is tried again"
    assert manager.statuses("tiny")[0].error is None


def test_a_broken_newest_version_at_the_start_leaves_the_one_before(
    manage: Manage,
    base_path: Path,
) -> None:
    (base_path / "6").mkdir()
    (base_path / "6" / "saved_model.pb").write_bytes(b"\xff\xff")
    assert served(manage(base_path)) == 5


def test_a_path_that_tensorflow_takes_for_a_pattern(
    manage: Manage, tmp_path: Path, twofold: Path
) -> None:
    install(twofold, tmp_path / "tiny[1]", 5)
    with pytest.raises(ServingError, match=r"contains \[ \], which TensorFlow reads as a pattern"):
        manage(tmp_path / "tiny[1]").models["tiny"].require_available()


def test_the_warm_up_file_is_replayed(manage: Manage, base_path: Path) -> None:
    good = _pair_request(np.ones((3, 2), np.float32))
    write_warmup(base_path / "5", [good, good])
    assert served(manage(base_path)) == 5


def test_a_failing_warm_up_fails_the_version(manage: Manage, base_path: Path) -> None:
    write_warmup(base_path / "5", [_pair_request(np.ones((3, 5), np.float32))])
    versions = manage(base_path).models["tiny"]
    assert not versions.is_available
    with pytest.raises(ServingError, match=r"Warmup record 1 .* input pair: expected"):
        versions.require_available()


def test_nothing_to_serve_says_what_was_expected_and_where(
    manage: Manage, tmp_path: Path, twofold: Path
) -> None:
    def words(path: Path) -> str:
        with pytest.raises(ServingError) as raised:
            manage(path).models["tiny"].require_available()
        return str(raised.value)

    with pytest.raises(NotFound):
        manage(tmp_path / "none").models["tiny"].require_available()
    assert f"{tmp_path}/none is not a folder" in words(tmp_path / "none")
    assert f"{tmp_path} holds no version" in words(tmp_path)
    assert f"such as {tmp_path}/1/saved_model.pb" in words(tmp_path)
    assert f"Name the folder above it, {twofold.parent}" in words(twofold)
    (tmp_path / "3").mkdir()
    assert words(tmp_path) == (
        "Version 3 of model tiny is incomplete: saved_model.pb is missing. "
        f"Folder: {tmp_path / '3'}"
    )


def test_versions_change_under_load_without_a_failed_request(
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


def test_the_server_reports_a_broken_version_beside_the_serving_one(
    base_path: Path, twofold: Path, start_server: StartServer
) -> None:
    _, address = start_server(base_path)
    draft = Path(shutil.copytree(twofold, base_path / "draft"))
    shard = draft / "variables/variables.data-00000-of-00001"
    shard.write_bytes(b"\xff" + shard.read_bytes()[1:])  # of the weight
    install(draft, base_path, 6)
    with Client(address, model="tiny") as client:
        wait_until(lambda: len(client.status()) == 2 and client.status()[0].state == State.END)
        failed, serving = client.status()
        assert failed.error is not None
        assert failed.error.code.name == "DATA_LOSS"
        assert (serving.version, serving.state, serving.error) == (5, State.AVAILABLE, None)
        client.predict_rows([ROW])
