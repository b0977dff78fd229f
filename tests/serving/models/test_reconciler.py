"""Which versions are loaded, under each policy and through every change of the folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from serving.common.errors import NotFound, ServingError, StateNotReady
from serving.common.status import State
from serving.config.version_policy import All, Latest, Policy, Specific
from tests.serving.conftest import wait_until
from tests.serving.fakes import BROKEN, FakeLoader, add, available, remove, served, states
from tests.serving.models.conftest import Manage, config

POLICIES = [Latest(2), All(), Specific([5, 7])]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Latest(), {7}),
        (Latest(2), {7, 5}),
        (Latest(9), {7, 5, 3}),
        (All(), {7, 5, 3}),
        (Specific([5, 7, 13]), {7, 5}),
    ],
)
def test_policy_chooses_versions(
    manage: Manage, folder: Path, policy: Policy, expected: set[int]
) -> None:
    load = FakeLoader()
    manager = manage(config(folder, policy=policy), load=load)
    assert available(manager) == expected
    assert served(manager) == max(expected), "the newest answers by default"
    assert {served(manager, version=number) for number in expected} == expected
    assert load.versions == sorted(expected, reverse=True)
    with pytest.raises(NotFound, match=r"Specific\(tiny, 13\)"):
        served(manager, version=13)


@pytest.mark.parametrize("policy", POLICIES)
def test_deleted_version_is_unloaded(manage: Manage, folder: Path, policy: Policy) -> None:
    remove(folder / "tiny", 3)
    manager = manage(config(folder, policy=policy))
    (folder / "tiny/7/saved_model.pb").unlink()
    manager.poll()
    assert available(manager) == {5, 7}, "not before its folder is gone"
    remove(folder / "tiny", 7)
    manager.poll()
    assert states(manager) == {7: State.END, 5: State.AVAILABLE}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("keeps_base_path", [False, True])
def test_loaded_versions_survive_when_all_folders_vanish(
    manage: Manage,
    folder: Path,
    policy: Policy,
    keeps_base_path: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = manage(config(folder, policy=policy))
    before = available(manager)
    shutil.rmtree(folder / "tiny")
    if keeps_base_path:
        (folder / "tiny").mkdir()
    for _ in range(3):
        manager.poll()
    assert available(manager) == before
    assert caplog.text.count("Refusing to unload all versions for Servable: tiny") == 1
    add(folder / "tiny", 5)
    manager.poll()
    assert available(manager) == {5}


def test_new_version_loads_before_the_old_one_goes(manage: Manage, folder: Path) -> None:
    seen = []

    class Watching(FakeLoader):
        def __call__(self, name: str, version: int, path: Path) -> object:
            if version == 11:
                seen.append((served(manager), states(manager)))
            return super().__call__(name, version, path)

    load = Watching()
    manager = manage(config(folder), load=load)
    add(folder / "tiny", 11)
    manager.poll()
    assert seen == [(7, {7: State.AVAILABLE, 11: State.LOADING})]
    assert load.closed == [("tiny", 7)]


def test_version_that_is_wanted_again_is_loaded_again(manage: Manage, folder: Path) -> None:
    manager = manage(config(folder))
    with manager.lease("tiny") as leased:
        add(folder / "tiny", 11)
        manager.poll()
        remove(folder / "tiny", 11)
        manager.poll()
        assert states(manager) == {7: State.AVAILABLE, 11: State.END}
        assert leased.closed == 0
        with manager.lease("tiny") as again:
            assert again is not leased
    wait_until(lambda: leased.closed == 1)
    assert served(manager) == 7


def test_failed_version_is_retried(manage: Manage, tmp_path: Path) -> None:
    """So many times, after so many seconds; at once when its folder changes."""
    add(tmp_path / "tiny", 3, content=BROKEN)
    patient, load = FakeLoader(), FakeLoader()
    manage(config(tmp_path), load=patient, load_retry_interval_seconds=60.0).poll()
    assert patient.versions == [3]
    manager = manage(
        config(tmp_path), load=load, max_num_load_retries=2, load_retry_interval_seconds=0.0
    )
    for _ in range(5):
        manager.poll()
    assert load.versions == [3, 3, 3]
    with pytest.raises(ServingError, match="is broken"):
        manager.models["tiny"].require_available()
    (status,) = manager.statuses("tiny")
    assert status.error is not None
    assert (status.error.__traceback__, status.error.__cause__) == (None, None), "frees the model"
    add(tmp_path / "tiny", 3, content=BROKEN + " no more")
    manager.poll()
    assert available(manager) == {3}


def test_failed_version_does_not_count_in_the_policy(manage: Manage, folder: Path) -> None:
    manager = manage(config(folder, policy=Latest(2)))
    add(folder / "tiny", 11, content=BROKEN)
    manager.poll()
    assert available(manager) == {5, 7}
    add(folder / "tiny", 13)
    manager.poll()
    assert available(manager) == {7, 13}


def test_error_of_a_deleted_version_is_forgotten(manage: Manage, folder: Path) -> None:
    add(folder / "tiny", 11, content=BROKEN)
    manager = manage(config(folder))
    remove(folder / "tiny", 11)
    with pytest.raises(ServingError, match="NOT_FOUND: No version that is wanted"):
        manager.reload([config(folder, policy=Specific([13]))])


def test_retries_go_on_without_polling(
    manage: Manage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.models.manager._RETRY_SECONDS", 0.01)
    add(tmp_path / "tiny", 3, content=BROKEN)
    load = FakeLoader()
    manager = manage(
        config(tmp_path), load=load, max_num_load_retries=2, load_retry_interval_seconds=0.01
    )
    add(tmp_path / "tiny", 5)
    manager.start(0)
    wait_until(lambda: load.versions == [3, 3, 3])
    assert available(manager) == set(), "new folders are not looked for"


def test_problems_are_logged_once(
    manage: Manage, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(folder / "tiny", "007", "latest", "77.tmp")
    (folder / "tiny/88").touch()
    load = FakeLoader()
    manager = manage(config(folder, policy=Specific([7, 13])), load=load)
    manager.poll()
    assert [path.name for _, _, path in load.calls] == ["7"]
    assert caplog.text.count("Duplicate version directories detected. Version 7 ") == 1
    assert caplog.text.count("Version 13 of servable tiny, which was requested") == 1


def test_state_that_is_not_there_is_logged_once(
    manage: Manage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    add(tmp_path / "tiny", 3)
    errors = [*(["3 s behind"] * 2), *(["by user_id"] * 3)]
    load = FakeLoader()

    def waits(name: str, number: int, path: Path) -> object:
        if errors:
            raise StateNotReady(errors.pop())
        return load(name, number, path)

    manager = manage(config(tmp_path), load=waits, load_retry_interval_seconds=0.0)
    for _ in range(5):
        manager.poll()
    assert available(manager) == {3}
    for text in ("Loading version 3", "by user_id", "3 s behind", "Version 3 of model tiny is av"):
        assert caplog.text.count(text) == 1, text


def test_stable_version_is_loaded_first(manage: Manage, folder: Path) -> None:
    """At a start a canary does not answer what the stable version is to answer."""
    load = FakeLoader()
    manage(config(folder, policy=Specific([3, 5, 7]), stable=3, canary=7), load=load)
    assert load.versions == [3, 7, 5]
