"""XLA computes the same scores as TensorFlow, which computes everything else."""

from __future__ import annotations

import itertools
import logging
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from serving.common.errors import DeadlineExceeded, Internal, InvalidArgument
from serving.runtimes.load import RuntimeOptions, load_runtime
from serving.runtimes.tensorflow import compiled
from serving.runtimes.tensorflow.compiled import CompiledRuntime
from serving.runtimes.tensorflow.session import TensorFlowSession
from serving.runtimes.tensorflow.xla_tower import XlaTower
from tests.serving.conftest import wait_until
from tests.serving.runtimes.tensorflow.conftest import AT_ONCE, ask, compiled_runtime, inputs_of


def test_compiled_shapes_score_as_tensorflow_does(
    runtime: CompiledRuntime, tensorflow: TensorFlowSession
) -> None:
    """Padded ones too, and histories of every length have one shape."""
    requests = [inputs_of(*size) for size in [(1, 33, 65), (1, 34, 68), (1, 0, 66), (2, 97, 5)]]
    for _ in range(2):
        for inputs in requests:
            expected = ask(tensorflow, inputs)
            found = ask(runtime, inputs)
            assert found.shape == expected.shape == inputs["price"].shape
            np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
        wait_until(lambda: runtime.compiled == [(1, 68), (2, 5)])
    for outputs in (["click"], ["twice"], ["twice", "click"]):
        found = runtime.run("rank", inputs, outputs, None)
        assert list(found) == outputs
        for name in outputs:
            scale = 2 if name == "twice" else 1
            np.testing.assert_allclose(found[name], scale * expected, 1e-5, 1e-6)


def test_single_rows_are_not_compiled(runtime: CompiledRuntime) -> None:
    rows = {**inputs_of(3, 2, 1), "price": np.float32([1, 2, 3])}
    for _ in range(2):
        runtime.run("serving_default", rows, ["click"], 60.0)
    runtime._background.run(lambda: None)
    assert runtime.compiled == []


def test_a_shape_is_compiled_after_its_time(exports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = map(float, itertools.count())  # each computation takes one
    monkeypatch.setattr(compiled, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    runtime = compiled_runtime(exports / "fixed", compile_after=2.5)
    for candidates in (3, 3, 4):
        ask(runtime, inputs_of(1, 2, candidates))
    runtime._background.run(lambda: None)
    assert runtime.compiled == []
    ask(runtime, inputs_of(1, 2, 3))
    wait_until(lambda: runtime.compiled == [(1, 3)])
    runtime.close()


def test_other_scores_end_the_compilation(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of shapes that were compiled before, too."""
    ask(runtime, inputs_of(1, 2, 5))
    wait_until(lambda: runtime.compiled == [(1, 5)])
    run = XlaTower.run

    def other(*arguments: Any) -> dict[str, np.ndarray]:
        return {name: array + 1e-3 for name, array in run(*arguments).items()}

    monkeypatch.setattr(XlaTower, "run", other)
    with caplog.at_level(logging.INFO, "serving"):
        ask(runtime, inputs_of(1, 2, 3))
        wait_until(lambda: "differs from TensorFlow's" in caplog.text)
    monkeypatch.undo()
    ask(runtime, inputs_of(1, 2, 7))
    runtime._background.run(lambda: None)
    assert runtime.compiled == []


@pytest.mark.parametrize("name", ["values", "lists"])
def test_towers_of_varying_shape_are_not_compiled(
    exports: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, inputs = compiled_runtime(exports / name), inputs_of(2, 7, 3)
    with caplog.at_level(logging.INFO, "serving"):
        expected = ask(runtime, inputs)
        wait_until(lambda: "depends on values or lists" in caplog.text)
    assert runtime.compiled == []
    np.testing.assert_array_equal(ask(runtime, inputs), expected)
    runtime.close()


def test_tensorflow_computes_what_a_tower_fails_at(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A deadline is passed on, and inputs that TensorFlow rejects too change nothing."""
    inputs = inputs_of(1, 2, 3)
    expected = ask(runtime, inputs)
    wait_until(lambda: runtime.compiled == [(1, 3)])

    def fails_with(error: Exception) -> Any:
        def fail(*_: object) -> None:
            raise error

        return fail

    monkeypatch.setattr(XlaTower, "run", fails_with(DeadlineExceeded("too late")))
    with pytest.raises(DeadlineExceeded, match="too late"):
        ask(runtime, inputs)
    monkeypatch.setattr(XlaTower, "run", fails_with(InvalidArgument("no number")))
    with monkeypatch.context() as both:
        both.setattr(TensorFlowSession, "run", fails_with(InvalidArgument("no number")))
        with pytest.raises(InvalidArgument, match="no number"):
            ask(runtime, inputs)
    assert runtime.compiled == [(1, 3)]
    monkeypatch.setattr(XlaTower, "run", fails_with(Internal("no memory")))
    np.testing.assert_array_equal(ask(runtime, inputs), expected)
    assert "no memory" in caplog.text
    assert runtime.compiled == []


def test_the_number_of_shapes_is_limited(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_MAX_SHAPES", 2)
    for candidates in range(1, 6):
        ask(runtime, inputs_of(1, 5, candidates))
    runtime._background.run(lambda: None)
    assert runtime.compiled == [(1, 1), (1, 2)]


def test_callers_get_their_own_scores_while_shapes_are_compiled(
    runtime: CompiledRuntime, tensorflow: TensorFlowSession
) -> None:
    requests = [inputs_of(1, count, count) for count in range(1, 6)]
    expected = [ask(tensorflow, one) for one in requests]

    def ask_often(start: int) -> None:
        for turn in range(60):
            number = (start + turn) % len(requests)
            np.testing.assert_allclose(ask(runtime, requests[number]), expected[number], 1e-5, 1e-6)

    with futures.ThreadPoolExecutor(6) as callers:
        list(callers.map(ask_often, range(6)))
    wait_until(lambda: len(runtime.compiled) == len(requests), 30)


def test_closing_waits_for_the_compilation(exports: Path) -> None:
    runtime = compiled_runtime(exports / "fixed")
    for candidates in range(1, 5):
        ask(runtime, inputs_of(1, 5, candidates))
    runtime.close()


def test_only_exports_of_this_project_are_compiled(exports: Path) -> None:
    path = exports / "fixed"

    def kind(compile_after: float) -> type:
        runtime = load_runtime(path, RuntimeOptions(compile_after=compile_after))
        runtime.close()
        return type(runtime)

    assert kind(0.0) is TensorFlowSession
    assert kind(AT_ONCE) is CompiledRuntime
    (path / "manifest.json").rename(path / "kept.json")
    assert kind(AT_ONCE) is TensorFlowSession
    (path / "kept.json").rename(path / "manifest.json")
