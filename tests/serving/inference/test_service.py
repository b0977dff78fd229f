"""What every call goes through: its version, its observers, its end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serving.common.answering import finished
from serving.common.call import Call
from serving.common.errors import Cancelled, DeadlineExceeded, Internal, NotFound, ServingError
from serving.inference.service import Inference
from serving.models.model import load_model
from tests.serving.exports import install
from tests.serving.stubs import ROWS, predict


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


def test_observers_see_what_became_of_each_call(manager: _Manager) -> None:
    seen: list[Call] = []
    inference = Inference(manager, [seen.append])
    response = inference.answer(predict(), Call("Predict", request_id="r1"))
    with pytest.raises(ServingError):
        inference.answer(predict(signature_name="score"), Call("Predict", request_id="r2"))
    good, bad = seen
    assert (good.response, good.error, good.request) == (response, None, predict())
    assert (good.model, good.version, good.signature) == ("tiny", 5, "serving_default")
    assert (good.rows, good.candidates, good.batch_rows) == (2, 2, 2)
    assert 0 < good.runtime_seconds <= good.seconds
    assert (bad.request_id, bad.response, type(bad.error).__name__) == (
        "r2", None, "FailedPrecondition",
    )  # fmt: skip
    assert (manager.most, manager.leased) == (1, 0)


def test_candidates_of_all_requests_are_counted(manager: _Manager) -> None:
    inputs = {
        **{name: ROWS[name] for name in ("user", "age", "history")},
        "price": np.ones((2, 3), np.float32),
        "tags": np.full((2, 3, 1), b"", object),
    }
    call = Call("Predict")
    Inference(manager).answer(predict(inputs=inputs, signature_name="rank"), call)
    assert (call.rows, call.candidates) == (2, 6)


def test_an_observer_that_fails_spoils_nothing(manager: _Manager) -> None:
    def fail(call: Call) -> None:
        raise OSError("disk full")

    seen: list[Call] = []
    assert Inference(manager, [fail, seen.append]).answer(predict(), Call("Predict")).outputs
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("caller", "error"),
    [
        ({"remaining": lambda: -0.5}, DeadlineExceeded),
        ({"is_active": lambda: False}, Cancelled),
    ],
)
def test_what_nobody_waits_for_is_not_computed(
    manager: _Manager, caller: dict[str, Any], error: type[ServingError]
) -> None:
    call = Call("Predict", **caller)
    with pytest.raises(error):
        Inference(manager).answer(predict(), call)
    assert call.runtime_seconds == 0


def test_a_fault_of_the_server_is_internal() -> None:
    class Broken:
        version = 5
        run = staticmethod(finished)

        def signature(self, key: str) -> None:
            raise KeyError(key)

    with pytest.raises(Internal, match="KeyError"):
        Inference(_Manager(Broken())).answer(predict(), Call("Predict"))


def test_no_model_no_answer() -> None:
    class Empty:
        models = ()

        @contextlib.contextmanager
        def lease(
            self, name: str, version: int | None = None, label: str | None = None
        ) -> Iterator[Any]:
            raise NotFound(name)
            yield

    with pytest.raises(NotFound):
        Inference(Empty()).answer(predict(), Call("Predict"))
