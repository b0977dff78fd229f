"""Models that come, change and go while requests use them."""

from __future__ import annotations

import threading
from pathlib import Path

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
from serving.config.version_policy import All, Latest, Policy, Specific
from serving.models.manager import ManagerOptions, ModelManager
from tests.serving.conftest import wait_until
from tests.serving.fakes import (
    BROKEN,
    FakeLoader,
    FakeModel,
    Reports,
    add,
    available,
    manager_of,
    served,
    states,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Versions 3, 5 and 7 of the models `tiny` and `other`."""
    add(tmp_path / "tiny", 3, 5, 7)
    add(tmp_path / "other", 3, 5, 7)
    return tmp_path


def _config(
    folder: Path, name: str = "tiny", policy: Policy | None = None, **labels: int
) -> ModelConfig:
    return ModelConfig(name, folder / name, policy or Latest(), labels)


def test_models_come_and_go_with_the_list(folder: Path) -> None:
    load, reports = FakeLoader(), Reports()
    manager = ModelManager([_config(folder)], load, reports)
    manager.poll()
    assert reports.last == {"tiny": True}
    manager.reload([_config(folder, "other")])
    assert served(manager, "other") == 7
    assert reports.last == {"other": True}
    assert load.closed == [("tiny", 7)]
    assert list(manager.models) == ["other"]
    assert states(manager) == {7: State.END}, "where it stands is still told"
    with pytest.raises(NotFound, match=r"Latest\(tiny\)"), manager.lease("tiny"):
        pass
    manager.reload([])
    assert reports.last == {}
    manager.reload([_config(folder)])
    assert served(manager) == 7
    manager.stop()


def test_an_unchanged_model_is_not_loaded_again(folder: Path) -> None:
    load = FakeLoader()
    manager = manager_of(_config(folder), load=load)
    manager.reload([_config(folder), _config(folder, "other")])
    manager.reload([_config(folder, "other"), _config(folder)])
    assert sorted(name for name, _, _ in load.calls) == ["other", "tiny"]
    manager.stop()


def test_a_reload_sees_new_folders_where_nothing_is_polled(folder: Path) -> None:
    manager = manager_of(_config(folder))
    add(folder / "tiny", 11)
    manager.reload([_config(folder)])
    assert served(manager) == 11
    manager.stop()


def test_a_policy_changes(folder: Path) -> None:
    manager = manager_of(_config(folder))
    manager.reload([_config(folder, policy=Specific([3, 5]))])
    assert available(manager) == {3, 5}
    manager.reload([_config(folder, policy=All())])
    assert available(manager) == {3, 5, 7}
    manager.reload([_config(folder)])
    assert available(manager) == {7}
    manager.stop()


def test_a_base_path_changes_under_the_same_number(folder: Path) -> None:
    manager = manager_of(_config(folder))
    moved = ModelConfig("tiny", folder / "other")
    with manager.lease("tiny") as before:
        manager.reload([moved])
        with manager.lease("tiny") as after:
            assert (before.version, after.version) == (7, 7)
            assert after.path == folder / "other" / "7"
        assert before.closed == 0
    wait_until(lambda: before.closed == 1)
    manager.stop()


def test_a_base_path_that_does_not_load_leaves_what_serves(folder: Path) -> None:
    add(folder / "other", 3, 5, 7, content=BROKEN)
    manager = manager_of(_config(folder))
    with pytest.raises(ServingError, match="did not become available") as raised:
        manager.reload([ModelConfig("tiny", folder / "other")])
    assert "due to error: DATA_LOSS: " in str(raised.value)
    assert raised.value.code.name == "UNKNOWN"
    with manager.lease("tiny") as model:
        assert model.path == folder / "tiny" / "7"
    manager.stop()


def test_a_new_model_that_does_not_load_fails_the_reload_and_is_tried_again(folder: Path) -> None:
    manager = manager_of(_config(folder))
    late = ModelConfig("late", folder / "late")
    with pytest.raises(ServingError) as raised:
        manager.reload([_config(folder), late])
    assert str(raised.value).startswith(
        "1 model(s) did not become available: {{{name: late} due to error: NOT_FOUND: No "
        f"version that is wanted is in {folder / 'late'};"
    )
    assert served(manager) == 7
    add(folder / "late", 1)
    manager.poll()
    assert served(manager, "late") == 1
    manager.stop()


def test_versions_that_are_not_there_fail_the_reload_and_the_others_serve(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manager_of(_config(folder))
    with pytest.raises(ServingError, match=r"NOT_FOUND: No version that is wanted is in .*tiny;"):
        manager.reload([_config(folder, policy=Specific([11]))])
    assert f"Expected a version of [11] in {folder / 'tiny'}. Found: [3, 5, 7]" in caplog.text
    assert available(manager) == {7}
    manager.stop()


def test_labels_lead_to_versions(folder: Path) -> None:
    manager = manager_of(_config(folder, policy=All()))
    with pytest.raises(InvalidArgument, match=r"^Unrecognized servable version label: stable$"):
        served(manager, label="stable")
    manager.reload([_config(folder, policy=All(), stable=3, canary=5)])
    assert served(manager, label="stable") == 3
    assert served(manager, label="canary") == 5
    assert manager.models["tiny"].labels == {"stable": 3, "canary": 5}
    manager.reload([_config(folder, policy=All(), stable=5)])
    assert served(manager, label="stable") == 5
    for name, label in [("tiny", "canary"), ("tiny", "none"), ("none", "stable")]:
        with pytest.raises(InvalidArgument, match=f"version label: {label}"):
            served(manager, name, label=label)
    manager.stop()


def test_labels_before_any_configuration(folder: Path) -> None:
    manager = manager_of()
    with pytest.raises(Unavailable, match=r"^Model labels does not init yet\.stable$"):
        served(manager, label="stable")
    manager.reload([_config(folder)])
    with pytest.raises(InvalidArgument):
        served(manager, label="stable")
    manager.stop()


def test_labels_at_the_start_hold_once_their_version_is_there(folder: Path) -> None:
    add(folder / "tiny", 3, content=BROKEN)
    labelled = _config(folder, policy=Specific([3, 5]), stable=5, old=3)
    manager = manager_of(labelled, load_retry_interval_seconds=60.0)
    assert served(manager, label="stable") == 5
    with pytest.raises(NotFound, match=r"Specific\(tiny, 3\)"):
        served(manager, label="old")
    manager.stop()


def test_a_label_for_a_version_that_is_not_available_changes_nothing(folder: Path) -> None:
    load = FakeLoader()
    manager = manager_of(_config(folder), load=load)
    with pytest.raises(
        FailedPrecondition,
        match=r"^Request to assign label to version 3 of model tiny, which is not currently",
    ):
        manager.reload([_config(folder, policy=All(), stable=3), _config(folder, "other")])
    assert list(manager.models) == ["tiny"]
    assert load.versions == [7]
    manager.stop()


def test_unavailable_versions_may_be_allowed_new_labels_alone(folder: Path) -> None:
    manager = manager_of(
        _config(folder, policy=All()), allow_version_labels_for_unavailable_models=True
    )
    manager.reload([_config(folder, policy=All(), stable=5, next=11)])
    assert served(manager, label="stable") == 5
    with pytest.raises(NotFound):
        served(manager, label="next")
    with pytest.raises(FailedPrecondition, match="label to version 11"):
        manager.reload([_config(folder, policy=All(), stable=11)])
    assert served(manager, label="stable") == 5
    add(folder / "tiny", 11)
    manager.poll()
    assert served(manager, label="next") == 11
    manager.reload([_config(folder, policy=All(), stable=11)])
    assert served(manager, label="stable") == 11
    manager.stop()


def test_a_name_twice_changes_nothing(folder: Path) -> None:
    with pytest.raises(InvalidArgument, match="multiple times"):
        manager_of(_config(folder), _config(folder))
    manager = manager_of(_config(folder))
    with pytest.raises(InvalidArgument, match="multiple times"):
        manager.reload([_config(folder, "other"), _config(folder, "other")])
    assert list(manager.models) == ["tiny"]
    manager.stop()


def test_look_ups_do_not_wait_for_a_load_and_a_reload_waits_for_a_poll(folder: Path) -> None:
    load = FakeLoader()
    manager = manager_of(_config(folder), load=load)
    add(folder / "tiny", 11)
    load.gate.clear()
    load.entered.clear()
    poll = threading.Thread(target=manager.poll)
    poll.start()
    assert load.entered.wait(5)
    reload = threading.Thread(target=manager.reload, args=([_config(folder, "other")],))
    reload.start()
    assert served(manager) == 7
    assert states(manager) == {7: State.AVAILABLE, 11: State.LOADING}
    assert list(manager.models) == ["tiny"]
    load.gate.set()
    poll.join(5)
    reload.join(5)
    assert served(manager, "other") == 7
    assert load.closed == [("tiny", 7), ("tiny", 11)]
    manager.stop()


def test_nothing_loads_once_stopped(folder: Path) -> None:
    manager = manager_of(_config(folder))
    manager.stop()
    for change in (manager.poll, lambda: manager.reload([])):
        with pytest.raises(Unavailable, match="The server is stopping"):
            change()
    assert served(manager) == 7, "loaded models stay"


def test_what_waits_for_its_turn_when_stopped_hears_of_it(folder: Path) -> None:
    load, heard = FakeLoader(), []
    manager = manager_of(_config(folder), load=load)
    add(folder / "tiny", 11)
    load.gate.clear()
    load.entered.clear()
    threads = [threading.Thread(target=manager.poll)]

    def reload() -> None:
        try:
            manager.reload([])
        except Unavailable as error:
            heard.append(error)

    threads.append(threading.Thread(target=reload))
    threads[0].start()
    assert load.entered.wait(5)
    threads[1].start()
    threads.append(threading.Thread(target=manager.stop))
    threads[2].start()
    wait_until(lambda: bool(heard))
    load.gate.set()
    for thread in threads:
        thread.join(5)
    assert list(manager.models) == ["tiny"]


def test_no_lease_fails_and_no_leased_model_is_closed_while_models_change(folder: Path) -> None:
    manager = manager_of(_config(folder, policy=All(), stable=5), _config(folder, "other"))
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
            models.append(_config(folder, "other"))
        manager.reload(models)
    stop.set()
    for thread in threads:
        thread.join(5)
    manager.stop()
    assert not failures
    assert {(5, "tiny"), (5, "other"), (3, "tiny")} & used


def test_several_models_load_at_once_and_one_that_fails_stops_no_other(folder: Path) -> None:
    meeting = threading.Barrier(2)

    def load(name: str, version: int, path: Path) -> FakeModel:
        if version == 7:  # the first of each model; its own others are tried one by one
            meeting.wait(10)  # breaks, and fails both, unless they load at once
        if name == "tiny":
            raise DataLoss("damaged")
        return FakeModel(name, version, path, [])

    manager = ModelManager(
        [_config(folder), _config(folder, "other")],
        load,
        Reports(),
        options=ManagerOptions(num_load_threads=2, max_num_load_retries=0),
    )
    manager.poll()
    assert served(manager, "other") == 7
    assert State.AVAILABLE not in states(manager).values()
    manager.stop()
