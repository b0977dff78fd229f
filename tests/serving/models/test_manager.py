"""Models that come, change and go while requests use them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from serving.common.errors import (
    DataLoss,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ServingError,
    Unavailable,
)
from serving.common.status import State
from serving.config.models import ModelConfig
from serving.config.version_policy import All, Latest, Specific
from serving.models.manager import ModelManager
from tests.serving.conftest import wait_until
from tests.serving.fakes import (
    BROKEN,
    FakeLoader,
    FakeModel,
    Reports,
    add,
    available,
    served,
    states,
)
from tests.serving.models.conftest import Manage, config


def test_models_come_and_go_with_the_configuration(folder: Path) -> None:
    load, reports = FakeLoader(), Reports()
    manager = ModelManager([config(folder)], load, reports)
    manager.poll()
    assert reports.last == {"tiny": True}
    manager.reload([config(folder, "other")])
    assert served(manager, "other") == 7
    assert (reports.last, list(manager.models)) == ({"other": True}, ["other"])
    assert load.closed == [("tiny", 7)]
    assert states(manager) == {7: State.END}, "the status of a removed model is kept"
    with pytest.raises(NotFound, match=r"Latest\(tiny\)"):
        served(manager)
    manager.reload([])
    assert reports.last == {}
    manager.reload([config(folder)])
    assert served(manager) == 7
    manager.stop()


def test_reload_loads_only_what_is_new(manage: Manage, folder: Path) -> None:
    load = FakeLoader()
    manager = manage(config(folder), load=load)
    manager.reload([config(folder), config(folder, "other")])
    manager.reload([config(folder, "other"), config(folder)])
    assert sorted(name for name, _, _ in load.calls) == ["other", "tiny"]
    for policy, expected in ((Specific([3, 5]), {3, 5}), (All(), {3, 5, 7}), (Latest(), {7})):
        manager.reload([config(folder, policy=policy)])
        assert available(manager) == expected
    add(folder / "tiny", 11)
    manager.reload([config(folder)])
    assert served(manager) == 11, "also without polling"


def test_base_path_changes_under_the_same_number(manage: Manage, folder: Path) -> None:
    manager = manage(config(folder))
    with manager.lease("tiny") as before:
        manager.reload([ModelConfig("tiny", folder / "other")])
        with manager.lease("tiny") as after:
            assert (before.version, after.version) == (7, 7)
            assert after.path == folder / "other" / "7"
        assert before.closed == 0
    wait_until(lambda: before.closed == 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"base_path": "broken"}, r"version: 7} due to error: DATA_LOSS: "),
        ({"base_path": "late"},
         r"due to error: NOT_FOUND: No version that is wanted is in .*late;"),
        ({"policy": Specific([11])}, r"NOT_FOUND: No version that is wanted is in .*tiny;"),
    ],
    ids=["broken", "empty", "specific"],
)  # fmt: skip
def test_failed_reload_keeps_the_served_versions(
    manage: Manage,
    folder: Path,
    change: dict[str, Any],
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    add(folder / "broken", 7, content=BROKEN)
    manager = manage(config(folder))
    base_path = folder / change.get("base_path", "tiny")
    with pytest.raises(ServingError, match=rf"^1 model\(s\) did not become .*{words}") as raised:
        manager.reload([ModelConfig("tiny", base_path, change.get("policy", Latest()))])
    assert raised.value.code.name == "UNKNOWN"
    with manager.lease("tiny") as model:
        assert model.path == folder / "tiny" / "7"
    if "policy" in change:
        assert f"Expected a version of [11] in {base_path}. Found: [3, 5, 7]" in caplog.text
    add(base_path, 11)
    manager.poll()
    assert served(manager) == 11, "the new configuration is tried again"


def test_label_names_a_version(manage: Manage, folder: Path) -> None:
    add(folder / "tiny", 3, content=BROKEN)
    manager = manage(config(folder, policy=All(), good=5, old=3))
    assert served(manager, label="good") == 5
    with pytest.raises(NotFound, match=r"Specific\(tiny, 3\)"):
        served(manager, label="old")
    add(folder / "tiny", 3)
    with pytest.raises(InvalidArgument, match=r"^Unrecognized servable version label: stable$"):
        served(manager, label="stable")
    manager.poll()
    manager.reload([config(folder, policy=All(), stable=3, canary=5)])
    assert served(manager, label="stable") == 3
    assert served(manager, label="canary") == 5
    manager.reload([config(folder, policy=All(), stable=5)])
    assert served(manager, label="stable") == 5
    for name, label in [("tiny", "canary"), ("tiny", "none"), ("none", "stable")]:
        with pytest.raises(InvalidArgument, match=f"version label: {label}"):
            served(manager, name, label=label)


def test_labels_before_any_configuration(manage: Manage, folder: Path) -> None:
    manager = manage()
    with pytest.raises(Unavailable, match=r"^Model labels does not init yet\.stable$"):
        served(manager, label="stable")
    manager.reload([config(folder)])
    with pytest.raises(InvalidArgument):
        served(manager, label="stable")


def test_invalid_reload_changes_nothing(manage: Manage, folder: Path) -> None:
    load = FakeLoader()
    manager = manage(config(folder), load=load)
    twice = [config(folder, "other"), config(folder, "other")]
    words = "^Illegal to list model other multiple times in config list$"
    with pytest.raises(InvalidArgument, match=words):
        manager.reload(twice)
    with pytest.raises(InvalidArgument, match="multiple times"):
        manage(*twice)
    with pytest.raises(
        FailedPrecondition,
        match=r"^Request to assign label to version 3 of model tiny, which is not currently "
        "available for inference$",
    ):
        manager.reload([config(folder, policy=All(), stable=3), config(folder, "other")])
    assert list(manager.models) == ["tiny"]
    assert load.versions == [7]


def test_new_labels_may_be_allowed_for_unavailable_versions(manage: Manage, folder: Path) -> None:
    manager = manage(config(folder, policy=All()), allow_version_labels_for_unavailable_models=True)
    manager.reload([config(folder, policy=All(), stable=5, next=11)])
    with pytest.raises(NotFound):
        served(manager, label="next")
    with pytest.raises(FailedPrecondition, match="label to version 11"):
        manager.reload([config(folder, policy=All(), stable=11)])
    assert served(manager, label="stable") == 5
    add(folder / "tiny", 11)
    manager.poll()
    assert served(manager, label="next") == 11
    manager.reload([config(folder, policy=All(), stable=11)])
    assert served(manager, label="stable") == 11


@pytest.fixture
def loading(manage: Manage, folder: Path) -> tuple[ModelManager, FakeLoader, threading.Thread]:
    """A manager that serves version 7, and a thread in which it loads 11 until the gate opens."""
    load = FakeLoader()
    manager = manage(config(folder), load=load)
    add(folder / "tiny", 11)
    load.gate.clear()
    load.entered.clear()
    poll = threading.Thread(target=manager.poll)
    poll.start()
    assert load.entered.wait(5)
    return manager, load, poll


def test_requests_do_not_wait_for_a_load(
    loading: tuple[ModelManager, FakeLoader, threading.Thread], folder: Path
) -> None:
    """But a reload waits for a poll."""
    manager, load, poll = loading
    reload = threading.Thread(target=manager.reload, args=([config(folder, "other")],))
    reload.start()
    assert served(manager) == 7
    assert states(manager) == {7: State.AVAILABLE, 11: State.LOADING}
    assert list(manager.models) == ["tiny"]
    load.gate.set()
    poll.join(5)
    reload.join(5)
    assert served(manager, "other") == 7
    assert load.closed == [("tiny", 7), ("tiny", 11)]


def test_stop_cancels_waiting_changes(
    loading: tuple[ModelManager, FakeLoader, threading.Thread],
) -> None:
    manager, load, poll = loading
    errors: list[Unavailable] = []

    def reload() -> None:
        try:
            manager.reload([])
        except Unavailable as error:
            errors.append(error)

    threads = [poll, threading.Thread(target=reload), threading.Thread(target=manager.stop)]
    threads[1].start()
    threads[2].start()
    wait_until(lambda: bool(errors))
    load.gate.set()
    for thread in threads:
        thread.join(5)
    assert list(manager.models) == ["tiny"]
    for change in (manager.poll, lambda: manager.reload([])):
        with pytest.raises(Unavailable, match="The server is stopping"):
            change()
    assert served(manager) in (7, 11), "loaded models stay available"


def test_leases_hold_while_models_change(manage: Manage, folder: Path) -> None:
    """No lease fails, and no leased model is closed."""
    manager = manage(config(folder, policy=All(), stable=5), config(folder, "other"))
    stop, failures, used = threading.Event(), [], set()

    def hammer(choice: dict[str, object]) -> None:
        while not (stop.is_set() or failures):
            try:
                with manager.lease("tiny", **choice) as model:
                    used.add((model.version, model.path.parent.name))
                    if model.closed:
                        failures.append(f"{model.version} is closed")
                    stop.wait(0.0001)
                    if model.closed:
                        failures.append(f"{model.version} was closed")
            except ServingError as error:
                failures.append(error)

    choices: list[dict[str, object]] = [{}, {}, {"version": 5}, {"label": "stable"}]
    threads = [threading.Thread(target=hammer, args=(choice,), daemon=True) for choice in choices]
    for thread in threads:
        thread.start()
    manager.start(0.001)
    for round_ in range(20):
        add(folder / "tiny", 11 + round_)
        policy = [All(), Specific([3, 5]), Latest(40), Specific([5])][round_ % 4]
        base = folder / ("other" if round_ % 5 == 4 else "tiny")
        models = [ModelConfig("tiny", base, policy, {"stable": 5})]
        if round_ % 3:
            models.append(config(folder, "other"))
        manager.reload(models)
    stop.set()
    for thread in threads:
        thread.join(5)
    assert not failures
    assert {(5, "tiny"), (5, "other"), (3, "tiny")} & used


def test_models_load_at_once_and_fail_alone(manage: Manage, folder: Path) -> None:
    meeting = threading.Barrier(2)

    def load(name: str, version: int, path: Path) -> FakeModel:
        if version == 7:  # the first of each model; older ones follow one by one
            meeting.wait(10)  # breaks, and fails both, unless they load at once
        if name == "tiny":
            raise DataLoss("damaged")
        return FakeModel(name, version, path, [])

    manager = manage(
        config(folder), config(folder, "other"),
        load=load, num_load_threads=2, max_num_load_retries=0,
    )  # fmt: skip
    assert served(manager, "other") == 7
    assert State.AVAILABLE not in states(manager).values()
