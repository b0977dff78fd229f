"""A model whose versions come from a backend: when they load, and when they are unloaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorflow_serving.apis import get_model_status_pb2

from serving.common.errors import NotFound, ServingError, Unavailable
from serving.common.status import State
from serving.config.models import ModelConfig
from serving.config.version_policy import Specific
from serving.models.manager import ModelManager
from serving.models.manager_options import ManagerOptions
from serving.proxy.backend_source import BackendSource
from tests.serving.fakes import BROKEN, FakeLoader, add, available, served


class FakePool:
    """Answers by model name with versions, or with an error."""

    def __init__(self, **answers: list[int] | ServingError) -> None:
        self.answers = answers

    def query(self, stub: Any, request: Any) -> Iterator[Any]:
        answer = self.answers[request.model_spec.name]
        if isinstance(answer, ServingError):
            raise answer
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in answer:
            response.model_version_status.add(version=version, state=int(State.AVAILABLE))
        yield response


def test_failed_versions_are_retried_without_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("serving.models.load_retries.time.monotonic", lambda: now)
    add(tmp_path, 3, content=BROKEN)
    load, tried = FakeLoader(), []
    options = ManagerOptions(2, 10.0, source=BackendSource(FakePool(tiny=[3])))
    manager = ModelManager([ModelConfig("tiny", tmp_path)], load, lambda _: None, options=options)
    for second in range(50):
        now, before = float(second), len(load.calls)
        manager.poll()
        tried += [second] * (len(load.calls) - before)
    assert tried == [0, 1, 3, 7, 15, 25, 35, 45], "the wait doubles, and is 10 s at most"
    manager.stop()


def _manager(pool: FakePool, reports: list[dict[str, bool]], *models: ModelConfig) -> ModelManager:
    options = ManagerOptions(source=BackendSource(pool))
    return ModelManager(models, FakeLoader(), reports.append, options=options)


def test_versions_and_readiness_follow_the_backend(tmp_path: Path) -> None:
    add(tmp_path / "tiny", 3, 5)
    pool, reports = FakePool(tiny=[5, 3]), []
    manager = _manager(pool, reports, ModelConfig("tiny", tmp_path / "tiny", Specific([5])))
    for answer, expected in (
        ([5, 3], {5}),
        (Unavailable("down"), {5}),  # its requests receive the backend's error
        ([5], {5}),
        ([3], set()),
        ([5], {5}),
        (NotFound("no such model"), set()),
    ):
        pool.answers["tiny"] = answer
        if isinstance(answer, ServingError):
            with pytest.raises(type(answer), match=str(answer)):
                manager.poll()
        else:
            manager.poll()
        assert available(manager) == expected
    assert [report["tiny"] for report in reports] == [True, False, True, False, True, False]
    manager.stop()


def test_missing_model_does_not_stop_the_others(tmp_path: Path) -> None:
    add(tmp_path / "tiny", 9)
    reports: list[dict[str, bool]] = []
    pool = FakePool(away=NotFound("Could not find any versions of model away"), tiny=[9])
    models = (ModelConfig("away", tmp_path), ModelConfig("tiny", tmp_path / "tiny"))
    manager = _manager(pool, reports, *models)
    with pytest.raises(NotFound, match="model away"):
        manager.poll()
    assert served(manager) == 9
    assert reports == [{"away": False, "tiny": True}]
    manager.stop()
