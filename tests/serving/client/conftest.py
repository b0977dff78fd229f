"""Both clients behind one handle, and stub servers with chosen answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import numpy as np
import pytest
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_status_pb2,
    predict_pb2,
    regression_pb2,
)

from serving.client import AsyncClient, Client, ClientOptions
from serving.encoding.codec import encode
from tests.serving.client.stub_server import Stub

PREDICTED = predict_pb2.PredictResponse()
encode(np.float32([2, 3, 5]), PREDICTED.outputs["click"])
ANSWERS = {
    "Predict": PREDICTED.SerializeToString(),
    "GetModelStatus": get_model_status_pb2.GetModelStatusResponse().SerializeToString(),
    "Classify": classification_pb2.ClassificationResponse().SerializeToString(),
    "Regress": regression_pb2.RegressionResponse().SerializeToString(),
}
ONCE = ClientOptions(attempts=1)
INPUTS = {"x": np.zeros(1, np.float32)}

Ask = Callable[..., Coroutine[Any, Any, Any]]


class Handle:
    """A client whose methods are called by name, and whose answers are there at once."""

    def __init__(self, client: Client | AsyncClient, runner: asyncio.Runner | None) -> None:
        self.client, self._runner = client, runner

    def ask(self, method: str, *args: Any, **options: Any) -> Any:
        answer = getattr(self.client, method)(*args, **options)
        return answer if self._runner is None else self._runner.run(answer)

    def play(self, scenario: Callable[[Ask], Coroutine[Any, Any, None]]) -> None:
        """Runs calls that overlap: a scenario awaits what it asks, and begins it as tasks."""

        def ask(method: str, *args: Any, **options: Any) -> Coroutine[Any, Any, Any]:
            bound = getattr(self.client, method)
            if self._runner is None:
                return asyncio.to_thread(bound, *args, **options)
            return bound(*args, **options)

        async def play() -> None:
            async with asyncio.timeout(30):
                await scenario(ask)

        (asyncio.run if self._runner is None else self._runner.run)(play())

    def predict_together(self, count: int) -> list[Any]:
        """Scores, or the error, of each of so many calls of the stub at the same time."""
        answers: list[Any] = []

        async def scenario(ask: Ask) -> None:
            calls = (ask("predict", INPUTS) for _ in range(count))
            answers.extend(await asyncio.gather(*calls, return_exceptions=True))

        self.play(scenario)
        return [a["click"].tolist() if isinstance(a, dict) else repr(a) for a in answers]

    def predict(self, size: int = 1, **options: Any) -> list[float]:
        """The stub's scores, for a request of that many floats."""
        return self.ask("predict", {"x": np.zeros(size, np.float32)}, **options)["click"].tolist()


Connect = Callable[..., Handle]


@pytest.fixture(params=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients of either kind for the model `tiny`."""
    runner = asyncio.Runner() if request.param == "asyncio" else None
    handles: list[Handle] = []

    def make(addresses: Any, **options: Any) -> Handle:
        kind = Client if runner is None else AsyncClient
        handles.append(Handle(kind(addresses, **{"model": "tiny", **options}), runner))
        return handles[-1]

    yield make
    for handle in handles:
        handle.ask("close")
    if runner is not None:
        runner.close()


StartStub = Callable[..., Stub]


@pytest.fixture
def start_stub() -> Iterator[StartStub]:
    """Starts stubs that stop with the test."""
    stubs: list[Stub] = []

    def start(*args: Any, answers: dict[str, bytes] | None = None) -> Stub:
        stubs.append(Stub(ANSWERS if answers is None else answers).start(*args))
        return stubs[-1]

    yield start
    for stub in stubs:
        stub.may_answer.set()
        stub.server.stop(None).wait()
