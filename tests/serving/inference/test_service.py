"""The service: versions, observers and errors of each request."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serving.common.errors import Cancelled, DeadlineExceeded, Internal, ServingError
from serving.common.request_trace import RequestTrace
from serving.inference.service import PREDICT, InferenceService
from tests.serving.exports import install, load_model
from tests.serving.stubs import ROWS, predict
from tests.serving.traces import trace


class _Manager:
    """Hands out one model, and counts who has it."""

    models = ("tiny",)

    def __init__(self, model: Any) -> None:
        self.model, self.leased, self.most = model, 0, 0

    @contextlib.contextmanager
    def lease(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> Iterator[Any]:
        self.leased += 1
        self.most = max(self.most, self.leased)
        try:
            yield self.model
        finally:
            self.leased -= 1


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory, twofold: Path) -> _Manager:
    return _Manager(load_model("tiny", 5, install(twofold, tmp_path_factory.mktemp("models"), 5)))


def test_observers_receive_the_trace_of_each_request(manager: _Manager) -> None:
    """A failing observer fails neither the request nor the other observers."""
    seen: list[RequestTrace] = []

    def fail(call: RequestTrace) -> None:
        raise OSError("disk full")

    service = InferenceService(manager, [fail, seen.append])
    response = service.handle(PREDICT, predict(), trace("Predict", request_id="r1"))
    with pytest.raises(ServingError):
        service.handle(PREDICT, predict(signature_name="score"), trace("Predict", request_id="r2"))
    good, bad = seen
    assert (good.response, good.error, good.message) == (response, None, predict())
    assert (good.model, good.version, good.signature) == ("tiny", 5, "serving_default")
    assert (good.rows, good.candidates, good.batch_rows) == (2, 2, 2)
    assert 0 < good.runtime_seconds <= good.seconds
    assert (bad.context.request_id, bad.response, type(bad.error).__name__) == (
        "r2", None, "FailedPrecondition",
    )  # fmt: skip
    assert (manager.most, manager.leased) == (1, 0)


def test_candidates_of_all_rows_are_counted(manager: _Manager) -> None:
    shared = {name: ROWS[name] for name in ("user", "age", "history")}
    own = {"price": np.ones((2, 3), np.float32), "tags": np.full((2, 3, 1), b"", object)}
    record = trace("Predict")
    request = predict(inputs={**shared, **own}, signature_name="rank")
    InferenceService(manager).handle(PREDICT, request, record)
    assert (record.rows, record.candidates) == (2, 6)


@pytest.mark.parametrize(
    ("caller", "error"),
    [
        ({"remaining": lambda: -0.5}, DeadlineExceeded),
        ({"is_active": lambda: False}, Cancelled),
    ],
)
def test_an_abandoned_request_is_not_computed(
    manager: _Manager, caller: dict[str, Any], error: type[ServingError]
) -> None:
    record = trace("Predict", **caller)
    with pytest.raises(error):
        InferenceService(manager).handle(PREDICT, predict(), record)
    assert record.runtime_seconds == 0


def test_an_unexpected_exception_is_internal() -> None:
    class Broken:
        version = 5

        def signature(self, key: str) -> None:
            raise KeyError(key)

    with pytest.raises(Internal, match="KeyError"):
        InferenceService(_Manager(Broken())).handle(PREDICT, predict(), trace("Predict"))
