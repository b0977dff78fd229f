"""Which versions are loaded, under each policy and through every change of the folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from serving.common.errors import NotFound, ServingError
from serving.common.status import State
from serving.config.models import ModelConfig
from serving.config.version_policy import All, Latest, Policy, Specific
from serving.models.manager import ModelManager
from tests.serving.conftest import wait_until
from tests.serving.fakes import (
    BROKEN,
    FakeLoader,
    add,
    available,
    manager_of,
    remove,
    served,
    states,
)


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    return tmp_path / "tiny"


def _manager(base_path: Path, policy: Policy, load: FakeLoader, **options: object) -> ModelManager:
    return manager_of(ModelConfig("tiny", base_path, policy), load=load, **options)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Latest(), {11}),
        (Latest(2), {11, 7}),
        (Latest(9), {11, 7, 5, 3}),
        (All(), {11, 7, 5, 3}),
        (Specific([5, 11, 13]), {11, 5}),
    ],
)
def test_the_policy_chooses(base_path: Path, policy: Policy, expected: set[int]) -> None:
    add(base_path, 3, 5, 7, 11)
    load = FakeLoader()
    manager = _manager(base_path, policy, load)
    assert available(manager) == expected
    assert served(manager) == max(expected), "without a version the newest answers"
    assert {served(manager, version=number) for number in expected} == expected
    assert load.versions == sorted(expected, reverse=True)
    manager.stop()


@pytest.mark.parametrize("policy", [Latest(2), All(), Specific([3, 5])])
def test_a_folder_that_goes_takes_its_version_along(base_path: Path, policy: Policy) -> None:
    add(base_path, 3, 5)
    manager = _manager(base_path, policy, FakeLoader())
    remove(base_path, 5)
    manager.poll()
    assert states(manager) == {5: State.END, 3: State.AVAILABLE}
    manager.stop()


@pytest.mark.parametrize("policy", [Latest(2), All(), Specific([3, 5])])
@pytest.mark.parametrize("vanish", ["base path", "every folder"])
def test_what_serves_goes_on_when_all_folders_vanish(
    base_path: Path, policy: Policy, vanish: str, caplog: pytest.LogCaptureFixture
) -> None:
    add(base_path, 3, 5)
    manager = _manager(base_path, policy, FakeLoader())
    shutil.rmtree(base_path)
    if vanish == "every folder":
        base_path.mkdir()
    for _ in range(3):
        manager.poll()
    assert available(manager) == {3, 5}
    assert caplog.text.count("Refusing to unload all versions for Servable: tiny") == 1
    add(base_path, 5)
    manager.poll()
    assert available(manager) == {5}
    manager.stop()


def test_a_version_that_is_being_deleted_serves_until_its_folder_is_gone(base_path: Path) -> None:
    add(base_path, 3, 5)
    manager = _manager(base_path, All(), FakeLoader())
    (base_path / "5" / "saved_model.pb").unlink()
    manager.poll()
    assert available(manager) == {3, 5}
    manager.stop()


def test_the_newest_that_load_are_served(base_path: Path) -> None:
    add(base_path, 3, 5)
    load = FakeLoader()
    manager = _manager(base_path, Latest(2), load)
    add(base_path, 7, content=BROKEN)
    manager.poll()
    assert available(manager) == {3, 5}
    add(base_path, 11)
    manager.poll()
    assert available(manager) == {5, 11}
    manager.stop()


def test_a_new_version_loads_before_the_old_one_goes(base_path: Path) -> None:
    add(base_path, 3)
    seen = []

    class Watching(FakeLoader):
        def __call__(self, name: str, version: int, path: Path) -> object:
            if version == 5:
                seen.append((served(manager), states(manager)))
            return super().__call__(name, version, path)

    load = Watching()
    manager = _manager(base_path, Latest(), load)
    add(base_path, 5)
    manager.poll()
    assert seen == [(3, {3: State.AVAILABLE, 5: State.LOADING})]
    assert load.closed == [("tiny", 3)]
    manager.stop()


def test_a_failure_is_tried_again_so_many_times(base_path: Path) -> None:
    add(base_path, 3, content=BROKEN)
    load = FakeLoader()
    manager = _manager(
        base_path, Latest(), load, max_num_load_retries=2, load_retry_interval_seconds=0.0
    )
    for _ in range(5):
        manager.poll()
    assert load.versions == [3, 3, 3]
    with pytest.raises(ServingError, match="is broken"):
        manager.models["tiny"].require_available()
    add(base_path, 3, content=BROKEN + " no more")
    manager.poll()
    assert available(manager) == {3}, "a folder that has changed is tried at once"
    manager.stop()


def test_a_failure_is_not_tried_again_before_its_time(base_path: Path) -> None:
    add(base_path, 3, content=BROKEN)
    load = FakeLoader()
    manager = _manager(base_path, Latest(), load, load_retry_interval_seconds=60.0)
    manager.poll()
    assert load.versions == [3]
    manager.stop()


def test_retries_go_on_where_nothing_is_polled(
    base_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.models.manager._RETRY_SECONDS", 0.01)
    add(base_path, 3, content=BROKEN)
    load = FakeLoader()
    manager = _manager(
        base_path, Latest(), load, max_num_load_retries=2, load_retry_interval_seconds=0.01
    )
    add(base_path, 5)
    manager.start(0)
    wait_until(lambda: load.versions == [3, 3, 3])
    manager.stop()
    assert available(manager) == set(), "a new folder is not looked for"


def test_a_failure_keeps_nothing_of_the_model(base_path: Path) -> None:
    add(base_path, 3, content=BROKEN)
    manager = _manager(base_path, Latest(), FakeLoader())
    (status,) = manager.statuses("tiny")
    assert status.error is not None
    assert status.error.__traceback__ is None
    assert status.error.__cause__ is None
    manager.stop()


def test_two_folders_with_one_number_warn_once(
    base_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(base_path, "1", "001")
    load = FakeLoader()
    manager = _manager(base_path, Latest(), load)
    manager.poll()
    assert [path.name for _, _, path in load.calls] == ["1"]
    assert caplog.text.count("Duplicate version directories detected. Version 1 ") == 1
    manager.stop()


def test_a_version_that_is_asked_for_and_missing_warns_once(
    base_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(base_path, 3)
    manager = _manager(base_path, Specific([3, 5]), FakeLoader())
    manager.poll()
    assert caplog.text.count("Version 5 of servable tiny, which was requested") == 1
    manager.stop()


def test_a_version_comes_back_when_it_is_wanted_again(base_path: Path) -> None:
    add(base_path, 3)
    manager = _manager(base_path, Latest(), FakeLoader())
    with manager.lease("tiny") as held:
        add(base_path, 5)
        manager.poll()
        remove(base_path, 5)
        manager.poll()
        assert states(manager) == {3: State.AVAILABLE, 5: State.END}
        assert held.closed == 0, "the one that was on its way out still has its request"
        with manager.lease("tiny") as again:
            assert again is not held
    wait_until(lambda: held.closed == 1)
    assert served(manager) == 3
    manager.stop()


def test_another_version_is_not_served_in_its_stead(base_path: Path) -> None:
    add(base_path, 3)
    manager = _manager(base_path, Latest(), FakeLoader())
    with pytest.raises(NotFound, match=r"Specific\(tiny, 5\)"), manager.lease("tiny", 5):
        pass
    manager.stop()
