"""Loading a version: its warm-up, and its batching parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorflow_serving.apis import prediction_log_pb2

from serving.common.errors import InvalidArgument, ServingError
from serving.common.priority import has_low_priority
from serving.config.batching import BatchingParameters
from serving.inference.service import replay
from serving.models.model import Model
from serving.runtimes.load import RuntimeOptions, load_runtime
from serving.server.loader import Loader, LoadOptions
from tests.serving.conftest import StartServer
from tests.serving.exports import write_warmup
from tests.serving.stubs import classify, examples, multi_inference, predict, regress
from tests.serving.traces import trace

TWO = examples({"user": "ann", "price": 1.5}, {"price": 2.0})
REQUESTS = {
    "predict_log": predict(),
    "classify_log": classify(TWO),
    "regress_log": regress(TWO),
    "multi_inference_log": multi_inference(TWO, ("regress", "regress")),
}
FAILS = predict(inputs={"values": np.ones(5, np.float32)}, signature_name="fail")
SIZES = BatchingParameters(max_batch_size=8, allowed_batch_sizes=(1, 4, 8))


class _Watched:
    """A runtime that records the number of rows of each run."""

    def __init__(self, runtime: Any, rows: list[int]) -> None:
        self.definitions, self.close = runtime.definitions, runtime.close
        self._runtime, self._rows = runtime, rows

    def run(
        self,
        key: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float | None,
    ) -> dict[str, np.ndarray]:
        self._rows.append(max(map(len, inputs.values())))
        return self._runtime.run(key, inputs, outputs, timeout)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each run."""
    rows: list[int] = []

    def load(path: Path, options: RuntimeOptions) -> _Watched:
        return _Watched(load_runtime(path, options), rows)

    monkeypatch.setattr("serving.models.version_source.load_runtime", load)
    return rows


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_warmup_computes_every_allowed_size(
    base_path: Path, computed: list[int], kind: str
) -> None:
    log = prediction_log_pb2.PredictionLog()
    getattr(log, kind).request.CopyFrom(REQUESTS[kind])
    write_warmup(base_path / "5", records=[log.SerializeToString()])
    Loader(LoadOptions(batching=SIZES))("tiny", 5, base_path / "5").close()
    assert computed == [4, 1, 4, 8], "two rows that were recorded, and then each size"


def test_a_warmup_beside_requests_leaves_batches_to_them(
    base_path: Path, computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It computes in a thread of low priority, and the same shapes as the first start."""
    low: list[bool] = []
    run = _Watched.run

    def watched(self: _Watched, *arguments: Any) -> dict[str, np.ndarray]:
        low.append(has_low_priority())
        return run(self, *arguments)

    monkeypatch.setattr(_Watched, "run", watched)
    write_warmup(base_path / "5", [predict()])
    sizes = BatchingParameters(max_batch_size=4, allowed_batch_sizes=(4,))
    loader = Loader(LoadOptions(batching=sizes))
    first = loader("tiny", 5, base_path / "5")
    second = loader("tiny", 6, base_path / "5")
    assert (computed, low) == ([4, 4, 4, 4], [False, False, True, True])
    for model in (first, second):
        model.close()


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_warmup_is_replayed_as_often_as_configured(
    base_path: Path, computed: list[int], times: int
) -> None:
    write_warmup(base_path / "5", [predict()])
    Loader(LoadOptions(warmup_iterations=times))("tiny", 5, base_path / "5").close()
    assert computed == [2] * times


def test_a_failed_warmup_fails_the_load(base_path: Path) -> None:
    calls: list[tuple[str, float, bool]] = []
    load = Loader(LoadOptions(report_warmup=lambda *call: calls.append(call)))
    write_warmup(base_path / "5", [predict()])
    load("tiny", 5, base_path / "5").close()
    write_warmup(base_path / "5", [FAILS])
    with pytest.raises(ServingError, match="Warmup record 1"):
        load("tiny", 5, base_path / "5")
    assert [(path, succeeded) for path, _, succeeded in calls] == [
        (str(base_path / "5"), True), (str(base_path / "5"), False),
    ]  # fmt: skip


def test_a_disabled_warmup_is_not_read(base_path: Path, start_server: StartServer) -> None:
    write_warmup(base_path / "5", [FAILS])
    for wanted in (True, False):
        server, _ = start_server(base_path, enable_model_warmup=wanted)
        assert server.manager.models["tiny"].is_available is not wanted


def test_examples_of_one_context_are_computed_in_chunks(
    base_path: Path, computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.server.loader._MAX_CHUNK", 3)
    model = Loader()("tiny", 5, base_path / "5")
    sent = examples(*({"price": float(n)} for n in range(7)), context={"user": "ann"})
    answer = replay(model, regress(sent)).response
    assert [one.value for one in answer.result.regressions] == [2 * n + 3.5 for n in range(7)]
    assert computed == [3, 3, 1]
    model.close()


def test_a_version_may_have_its_own_batching_parameters(base_path: Path) -> None:
    (base_path / "5/batching_params.pbtxt").write_text("max_batch_size { value: 2 }")
    three = {"values": np.ones(3, np.float32)}
    for reads_own in (False, True):
        options = LoadOptions(batching=BatchingParameters(), reads_own_batching=reads_own)
        model = Loader(options)("tiny", 5, base_path / "5")
        double = model.signature("double")
        if reads_own:
            with pytest.raises(InvalidArgument, match=r"Task size 3 is larger than .* 2"):
                double.run(three, ["doubled"], trace())
        else:
            assert double.run(three, ["doubled"], trace())["doubled"].tolist() == [2] * 3
        model.close()


def test_a_version_is_prepared_with_its_predecessor(
    base_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same name, if it still is there."""
    asked: list[int | None] = []
    monkeypatch.setattr(Model, "prepare", lambda _, before: asked.append(before and before.version))
    loader = Loader()
    first = loader("tiny", 5, base_path / "5")
    loader("other", 5, base_path / "5").close()
    second = loader("tiny", 6, base_path / "5")
    first.close()
    second.close()
    del first, second
    loader("tiny", 7, base_path / "5").close()
    assert asked == [None, None, 5, None]
