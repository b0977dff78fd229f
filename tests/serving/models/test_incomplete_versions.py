"""A version that is copied file by file serves once it is complete, the old one until then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipelines.common.artifacts import MANIFEST
from serving.client import Client
from serving.common.errors import FailedPrecondition, ServingError
from serving.common.status import State
from serving.config.models import ModelConfig
from serving.config.version_policy import All, Latest, Policy, Specific
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install, with_manifest
from tests.serving.fakes import available, served, states
from tests.serving.models.conftest import Serve

NEW = "6"
SHARD = "variables/variables.data-00000-of-00001"


@pytest.fixture
def listed(tmp_path: Path, twofold: Path) -> Path:
    """An export with a manifest that lists its files."""
    return with_manifest(twofold, tmp_path / "listed")


@pytest.fixture(params=["listed", "foreign"])
def exported(request: pytest.FixtureRequest, listed: Path, twofold: Path) -> Path:
    return listed if request.param == "listed" else twofold


def _copy(source: Path, target: Path, *names: str) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, target / name)


def _files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def _begin(source: Path, base_path: Path) -> list[str]:
    """Copies the files of a version's folder itself as the new version; names those below it."""
    names = _files(source)
    _copy(source, base_path / NEW, *(name for name in names if "/" not in name))
    return [name for name in names if "/" in name]


def test_old_version_serves_until_the_copy_is_complete(
    tmp_path: Path, exported: Path, start_server: StartServer
) -> None:
    base_path = tmp_path / "tiny"
    install(exported, base_path, 1)
    server, address = start_server(base_path)
    with Client(address, model="tiny") as client:
        late = _begin(exported, base_path)
        for _ in range(3):
            server.manager.poll()
            assert client.metadata().version == 1
        waiting, serving = client.status()
        assert (serving.version, serving.state, serving.error) == (1, State.AVAILABLE, None)
        assert (waiting.version, waiting.state) == (6, State.START)
        assert "Version 6 of model tiny is incomplete: " in str(waiting.error)
        _copy(exported, base_path / NEW, *late)
        wait_until(lambda: client.metadata().version == 6, seconds=60)
    wait_until(lambda: available(server.manager) == {6})


@pytest.mark.parametrize("policy", [Latest(), Latest(2), All(), Specific([5, 6])], ids=repr)
def test_old_version_stays_until_the_new_one_loads(
    serve: Serve, base_path: Path, twofold: Path, policy: Policy
) -> None:
    """An incomplete version that is deleted is forgotten."""
    manager = serve(base_path, policy)
    _begin(twofold, base_path)
    manager.poll()
    shutil.rmtree(base_path / NEW)
    manager.poll()
    assert states(manager) == {5: State.AVAILABLE}
    late = _begin(twofold, base_path)
    manager.poll()
    assert available(manager) == {5}
    _copy(twofold, base_path / NEW, *late)
    manager.poll()
    assert available(manager) == ({6} if policy == Latest() else {5, 6})


@pytest.mark.thorough
def test_reload_to_an_incomplete_version(serve: Serve, base_path: Path, twofold: Path) -> None:
    manager = serve(base_path)
    late = _begin(twofold, base_path)
    only = ModelConfig("tiny", base_path, Specific([6]))
    words = r"version: 6} due to error: UNAVAILABLE: Version 6 of model tiny is incomplete: "
    with pytest.raises(ServingError, match=words):
        manager.reload([only])
    assert served(manager) == 5
    with pytest.raises(FailedPrecondition, match="label to version 6"):
        manager.reload([ModelConfig("tiny", base_path, All(), {"stable": 6})])
    assert served(manager) == 5
    _copy(twofold, base_path / NEW, *late)
    manager.poll()
    assert available(manager) == {6}


def test_each_kind_of_gap_is_logged_once(
    serve: Serve, tmp_path: Path, listed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = serve(tmp_path, max_num_load_retries=0)
    names = [MANIFEST, *(name for name in _files(listed) if name != MANIFEST)]
    for name in names:
        _copy(listed, tmp_path / NEW, name)
        if name != names[-1]:
            manager.poll()
            manager.poll()
            with pytest.raises(ServingError, match="Version 6 of model tiny is incomplete: "):
                manager.models["tiny"].require_available()
    last = tmp_path / NEW / names[-1]
    complete = last.read_bytes()
    for part in (3, 5, 7):
        last.write_bytes(complete[:part])
        manager.poll()
    last.write_bytes(bytes(len(complete)))
    manager.poll()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert f" is missing (0 of {len(names) - 1} files are complete). " in said[0]
    assert "has another size than manifest.json says (3 instead of" in said[1]
    assert "has another content than manifest.json says" in said[2]
    last.write_bytes(complete)
    manager.poll()  # the file may still be filling
    manager.poll()
    assert available(manager) == {6}


def test_incomplete_versions_are_checked_without_polling(
    serve: Serve, base_path: Path, twofold: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If they were there at the first poll."""
    monkeypatch.setattr("serving.models.manager._RETRY_SECONDS", 0.01)
    late = _begin(twofold, base_path)
    manager = serve(base_path)
    assert states(manager) == {6: State.START, 5: State.AVAILABLE}
    manager.start(0)
    _copy(twofold, base_path / NEW, *late)
    wait_until(lambda: available(manager) == {6}, seconds=60)


def test_loaded_version_is_not_checked(serve: Serve, tmp_path: Path, listed: Path) -> None:
    manager = serve(tmp_path / "tiny")
    install(listed, tmp_path / "tiny", 1)
    manager.poll()
    for name in _files(listed):
        (tmp_path / "tiny/1" / name).write_bytes(b"another")
        manager.poll()
        assert states(manager) == {1: State.AVAILABLE}
