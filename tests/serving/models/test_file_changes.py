"""Changes of versions and labels in one file: no label ever lacks its version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from serving.common.errors import FailedPrecondition, ServingError
from serving.config.version_policy import Latest, Specific
from serving.models.file_changes import apply_file
from serving.models.manager import ModelManager
from tests.serving.fakes import BROKEN, FakeLoader, FakeModel, add, available, served
from tests.serving.models.conftest import Manage, config

Change = Callable[..., None]


class _WhileLoading(FakeLoader):
    """Notes the versions that the labels name at the time of each load."""

    def __init__(self) -> None:
        super().__init__()
        self.manager: ModelManager | None = None
        self.seen: dict[int, dict[str, int]] = {}

    def __call__(self, name: str, version: int, path: Path) -> FakeModel:
        if self.manager is not None:
            labels = self.manager.models[name].labels
            self.seen[version] = {one: served(self.manager, label=one) for one in labels}
        return super().__call__(name, version, path)


@pytest.fixture
def load() -> _WhileLoading:
    return _WhileLoading()


@pytest.fixture
def manager(manage: Manage, folder: Path, load: _WhileLoading) -> ModelManager:
    """A manager that serves version 3, with the label `stable`."""
    load.manager = manage(config(folder, policy=Specific([3]), stable=3), load=load)
    return load.manager


@pytest.fixture
def change(manager: ModelManager, folder: Path) -> Change:
    """Applies a file with these versions and labels."""

    def change(*versions: int, **labels: int) -> None:
        apply_file(manager, [config(folder, policy=Specific(versions), **labels)])

    return change


def test_one_file_brings_a_version_and_its_label(
    manager: ModelManager, change: Change, load: _WhileLoading
) -> None:
    change(3, 5, stable=3, canary=5)
    assert load.seen == {5: {"stable": 3}}
    assert dict(manager.models["tiny"].labels) == {"stable": 3, "canary": 5}
    assert available(manager) == {3, 5}


def test_promotion_and_the_next_canary_in_one_file(
    manager: ModelManager, change: Change, load: _WhileLoading
) -> None:
    """A label whose version is loaded does not wait for the others."""
    change(3, 5, stable=3, canary=5)
    change(5, 7, stable=5, canary=7)
    assert load.seen[7] == {"stable": 5, "canary": 5}
    assert dict(manager.models["tiny"].labels) == {"stable": 5, "canary": 7}
    assert available(manager) == {5, 7}


def test_label_skips_to_a_version_that_is_not_loaded(
    manager: ModelManager, change: Change, load: _WhileLoading
) -> None:
    change(7, stable=7)
    assert load.seen == {7: {"stable": 3}}
    assert (served(manager, label="stable"), available(manager)) == (7, {7})


def test_removed_label_is_gone_before_anything_loads(
    manager: ModelManager, change: Change, load: _WhileLoading
) -> None:
    change(3, 5, stable=3, canary=5)
    change(3, 7, stable=3)
    assert load.seen[7] == {"stable": 3}
    assert available(manager) == {3, 7}


def test_rolled_back_canary_ends_before_the_next_is_loaded(
    manager: ModelManager, change: Change, load: _WhileLoading
) -> None:
    change(3, 5, stable=3, canary=5)
    change(3, 7, stable=3, canary=7)
    assert load.seen[7] == {"stable": 3}
    assert dict(manager.models["tiny"].labels) == {"stable": 3, "canary": 7}
    assert available(manager) == {3, 7}


def test_label_of_a_broken_version_stays(
    manager: ModelManager, change: Change, folder: Path, load: _WhileLoading
) -> None:
    """Its version too, however often the file is tried; what can be loaded is loaded once."""
    add(folder / "tiny", 7, content=BROKEN)
    for _ in range(3):
        with pytest.raises(FailedPrecondition, match="label to version 7 of model tiny"):
            change(5, 7, stable=7)
        manager.poll()
        assert (served(manager, label="stable"), available(manager)) == (3, {3, 5})
    assert load.versions.count(5) == 1
    add(folder / "tiny", 7)
    change(5, 7, stable=7)
    assert (served(manager, label="stable"), available(manager)) == (7, {5, 7})


def test_new_model_comes_with_its_label(manager: ModelManager, folder: Path) -> None:
    models = [config(folder, policy=Specific([3]), stable=3), config(folder, "other", stable=7)]
    apply_file(manager, models)
    assert served(manager, "other", label="stable") == 7
    apply_file(manager, [config(folder, policy=Latest())])
    assert (list(manager.models), served(manager)) == (["tiny"], 7)


def test_allowed_label_may_wait_for_its_version(manage: Manage, folder: Path) -> None:
    manager = manage(
        config(folder, policy=Specific([3]), stable=3),
        allow_version_labels_for_unavailable_models=True,
    )
    apply_file(manager, [config(folder, policy=Specific([3, 11]), stable=3, canary=11)])
    with pytest.raises(ServingError, match=r"Specific\(tiny, 11\)"):
        served(manager, label="canary")
    add(folder / "tiny", 11)
    manager.poll()
    assert served(manager, label="canary") == 11
