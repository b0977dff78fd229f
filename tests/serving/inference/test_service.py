"""The service: versions, observers and errors of each request."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from serving.common.errors import (
    Cancelled,
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    ResourceExhausted,
    ServingError,
    Unauthenticated,
)
from serving.common.request import RequestContext
from serving.common.request_trace import RequestTrace
from serving.inference.admission import Admission
from serving.inference.service import PREDICT, InferenceService
from tests.serving.exports import load_model
from tests.serving.fakes import Leases
from tests.serving.stubs import ROWS, predict, status
from tests.serving.traces import trace


@pytest.fixture(scope="module")
def manager(twofold: Path) -> Leases:
    return Leases({5: load_model("tiny", 5, twofold)})


def test_observers_receive_the_trace_of_each_request(manager: Leases) -> None:
    """A failing observer fails neither the request nor the other observers."""
    seen: list[RequestTrace] = []

    def fail(call: RequestTrace) -> None:
        raise OSError("disk full")

    service = InferenceService(manager, [fail, seen.append], begin=fail)
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


def test_candidates_of_all_rows_are_counted(manager: Leases) -> None:
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
    manager: Leases, caller: dict[str, Any], error: type[ServingError]
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
        InferenceService(Leases({5: Broken()})).handle(PREDICT, predict(), trace("Predict"))


def test_label_of_a_model_that_a_reload_removes() -> None:
    """Between two looks at the models."""

    class Reloading(Leases):
        looks = 0

        @property
        def models(self) -> dict[str, Any]:
            self.looks += 1
            return {"tiny": SimpleNamespace(labels={})} if self.looks == 1 else {}

    with pytest.raises(InvalidArgument, match="Unrecognized servable version label: old"):
        InferenceService(Reloading({})).status(status(version_label="old"))


def test_deadlines_of_refused_clients_count(
    manager: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The door would go on refusing clients that have become more patient."""
    noted: list[RequestContext] = []
    admission = Admission(1)
    monkeypatch.setattr(admission, "note_patience", noted.append)
    service, record = InferenceService(manager, admission=admission), trace("Predict", version=5)
    service.reject(record, ResourceExhausted("busy"))
    service.reject(trace("Predict", version=5), Unauthenticated("no"))
    assert noted == [record.context]
