"""Managers that stop with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from serving.config.models import ModelConfig
from serving.config.version_policy import Latest, Policy
from serving.models.manager import ModelManager
from serving.models.manager_options import ManagerOptions
from serving.models.reconciler import Load
from serving.server.loader import Loader
from tests.serving.fakes import FakeLoader, Reports, add

Manage = Callable[..., ModelManager]
Serve = Callable[..., ModelManager]


@pytest.fixture
def manage() -> Iterator[Manage]:
    """Makes managers that have polled once."""
    managers: list[ModelManager] = []

    def make(*models: ModelConfig, load: Load | None = None, **options: object) -> ModelManager:
        manager = ModelManager(
            models, load or FakeLoader(), Reports(), options=ManagerOptions(**options)
        )
        managers.append(manager)
        manager.poll()
        return manager

    yield make
    for manager in managers:
        manager.stop()


@pytest.fixture
def serve(manage: Manage) -> Serve:
    """Serves the SavedModels of a base path."""

    def start(base_path: Path, policy: Policy | None = None, **options: object) -> ModelManager:
        config = ModelConfig("tiny", base_path, policy or Latest())
        return manage(config, load=Loader(), **options)

    return start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Versions 3, 5 and 7 of the models `tiny` and `other`."""
    for name in ("tiny", "other"):
        add(tmp_path / name, 3, 5, 7)
    return tmp_path


def config(
    folder: Path, name: str = "tiny", policy: Policy | None = None, **labels: int
) -> ModelConfig:
    return ModelConfig(name, folder / name, policy or Latest(), labels)
