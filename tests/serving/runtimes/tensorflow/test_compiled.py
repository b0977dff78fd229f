"""What XLA compiles gives TensorFlow's scores; what it cannot stays as it is."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorflow.python.framework import kernels

from serving.common.errors import DeadlineExceeded, Internal, InvalidArgument
from serving.runtimes.choice import RuntimeChoice, load_runtime
from serving.runtimes.tensorflow import compiled
from serving.runtimes.tensorflow.compiled import CompiledRuntime
from serving.runtimes.tensorflow.session import TensorFlowSession
from serving.runtimes.tensorflow.xla_tower import XlaTower
from tests.serving.conftest import wait_until
from tests.serving.runtimes.conftest import AT_ONCE, ask, inputs_of


def test_compiled_shapes_score_as_tensorflow_does(runtime: CompiledRuntime, export: Path) -> None:
    """Those that are padded too, where nothing of the padding comes back."""
    tensorflow = TensorFlowSession(export)
    sizes = [(1, 33, 65), (1, 34, 68), (1, 0, 1), (3, 2), (33, 9), (2, 40, 5)]
    for count, size in enumerate(sizes):
        inputs = inputs_of(*size)
        key = "rank" if len(size) == 3 else "serving_default"
        expected = tensorflow.run(key, inputs, ["click"], None)["click"]
        for _ in range(3):
            np.testing.assert_allclose(ask(runtime, inputs), expected, 1e-5, 1e-6)
            wait_until(lambda: runtime.compiled("rank") + runtime.compiled("serving_default") >= 1)
        assert expected.shape == inputs["price"].shape, count
    wait_until(lambda: runtime.compiled("rank") == 3 and runtime.compiled("serving_default") == 2)
    for size in sizes:
        inputs = inputs_of(*size)
        key = "rank" if len(size) == 3 else "serving_default"
        expected = tensorflow.run(key, inputs, ["click"], None)["click"]
        found = ask(runtime, inputs)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
    tensorflow.close()


def test_a_shape_is_compiled_once_it_has_taken_long_enough(
    export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = CompiledRuntime(export, TensorFlowSession(export), 1e6)
    asked: list[tuple[int, ...]] = []
    monkeypatch.setattr(
        runtime, "_decide", lambda key, shape, inputs: asked.append(inputs["price"].shape)
    )
    ask(runtime, inputs_of(1, 2, 3))
    assert not asked
    (shape,) = runtime._signatures["rank"].known()
    shape.seconds = 1e6
    ask(runtime, inputs_of(1, 2, 4))
    assert not asked, "another shape"
    ask(runtime, inputs_of(1, 2, 3))
    assert asked == [(1, 3)]
    runtime.close()


def test_other_scores_are_not_used(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is what was compiled before: it may be no better with other values."""
    ask(runtime, inputs_of(1, 2, 5))
    wait_until(lambda: runtime.compiled("rank") == 1)
    run = XlaTower.run

    def other(*arguments: Any) -> dict[str, np.ndarray]:
        return {name: array + 1e-3 for name, array in run(*arguments).items()}

    monkeypatch.setattr(XlaTower, "run", other)
    _said(runtime, caplog, "would be another than before")
    assert runtime.compiled("rank") == 0
    monkeypatch.undo()
    ask(runtime, inputs_of(1, 2, 7))
    runtime._background.run(lambda: None)
    assert runtime.compiled("rank") == 0


def test_what_takes_no_lists_stays_in_tensorflow(export: Path) -> None:
    path = export.parent / "4"
    runtime = CompiledRuntime(path, TensorFlowSession(path), AT_ONCE)
    runtime.prepare(None)
    price = np.float32([1.5, 2.5])
    for _ in range(2):
        found = runtime.run("serving_default", {"price": price}, ["click"], 60.0)
        np.testing.assert_array_equal(found["click"], 2 * price)
    assert not any(operation.name.startswith("part_of_") for operation in _operations(runtime))
    runtime.close()


def test_a_slow_moment_decides_nothing(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a fleet, all servers compile the same."""
    run = XlaTower.run

    def slow(*arguments: Any) -> dict[str, np.ndarray]:
        time.sleep(0.05)
        return run(*arguments)

    monkeypatch.setattr(XlaTower, "run", slow)
    for inputs in (inputs_of(1, 2, 3), inputs_of(3, 2)):
        ask(runtime, inputs)
    wait_until(lambda: runtime.compiled("rank") == runtime.compiled("serving_default") == 1)


@pytest.mark.parametrize("version", ["2", "3"])
def test_what_has_other_shapes_with_other_values_or_lists_is_not_compiled(
    export: Path, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A request would have to wait for XLA."""
    path = export.parent / version
    runtime = CompiledRuntime(path, TensorFlowSession(path), AT_ONCE)
    with caplog.at_level(logging.INFO, "serving"):
        inputs = inputs_of(2, 7)
        expected = ask(runtime, inputs)
        wait_until(lambda: "depends on values or lists" in caplog.text)
    assert runtime.compiled("serving_default") == 0
    np.testing.assert_array_equal(ask(runtime, inputs), expected)
    runtime.close()


def test_what_fails_when_it_is_compiled_is_computed_by_tensorflow(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = inputs_of(1, 2, 3)
    expected = ask(runtime, inputs)
    wait_until(lambda: runtime.compiled("rank") == 1)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(XlaTower, "run", fail)
    error: Exception = DeadlineExceeded("too late")
    with pytest.raises(DeadlineExceeded, match="too late"):
        ask(runtime, inputs)
    error = Internal("no memory")
    np.testing.assert_array_equal(ask(runtime, inputs), expected)
    assert "no memory" in caplog.text
    assert runtime.compiled("rank") == 0


def test_values_that_tensorflow_refuses_too_change_nothing(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = inputs_of(1, 2, 3)
    ask(runtime, inputs)
    wait_until(lambda: runtime.compiled("rank") == 1)

    def refuse(*_: object) -> None:
        raise InvalidArgument("no number")

    for kind in (XlaTower, TensorFlowSession):
        monkeypatch.setattr(kind, "run", refuse)
    with pytest.raises(InvalidArgument, match="no number"):
        ask(runtime, inputs)
    assert runtime.compiled("rank") == 1


def test_lists_of_all_lengths_have_one_shape(runtime: CompiledRuntime, export: Path) -> None:
    tensorflow = TensorFlowSession(export)
    for events in (3, 0, 1, 33, 97):
        inputs = inputs_of(2, events, 5)
        expected = tensorflow.run("rank", inputs, ["click"], None)["click"]
        np.testing.assert_allclose(ask(runtime, inputs), expected, 1e-5, 1e-6)
        wait_until(lambda: runtime.compiled("rank") == 1)
    assert len(runtime._signatures["rank"].known()) == 1
    tensorflow.close()


def test_so_many_shapes_are_compiled_and_no_more(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that fail count too: XLA keeps what it has made of them."""
    monkeypatch.setattr(compiled, "_MOST", 3)
    tried: list[object] = []
    monkeypatch.setattr(runtime, "_compile", lambda key, shape, inputs: tried.append(shape))
    for candidates in range(1, 9):
        ask(runtime, inputs_of(1, 5, candidates))
    runtime._background.run(lambda: None)
    assert len(tried) == 3


def test_all_choices_of_outputs_are_computed_alike(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request of another one would hold up all others."""
    inputs = inputs_of(1, 2, 3)
    expected = ask(runtime, inputs)
    wait_until(lambda: runtime.compiled("rank") == 1)
    choices: list[object] = []
    run = TensorFlowSession.run_tensors

    def seen(session: Any, feeds: Any, fetches: Any, *rest: Any, **named: Any) -> Any:
        choices.append(fetches)
        return run(session, feeds, fetches, *rest, **named)

    monkeypatch.setattr(TensorFlowSession, "run_tensors", seen)
    for outputs in (["click"], ["twice"], ["twice", "click"]):
        found = runtime.run("rank", inputs, outputs, None)
        assert list(found) == outputs
        for name in outputs:
            times = 2 if name == "twice" else 1
            np.testing.assert_allclose(found[name], times * expected, 1e-5, 1e-6)
    assert len(choices) == 3
    assert choices[0] == choices[1] == choices[2]


def test_requests_go_on_while_shapes_are_compiled(runtime: CompiledRuntime, export: Path) -> None:
    """Of many callers at once none gets another's score, nor an error."""
    tensorflow = TensorFlowSession(export)
    requests = [inputs_of(1, count, count) for count in range(1, 12)]
    expected = [tensorflow.run("rank", one, ["click"], None)["click"] for one in requests]
    wrong: list[object] = []

    def ask_often(start: int) -> None:
        try:
            for turn in range(60):
                number = (start + turn) % len(requests)
                np.testing.assert_allclose(
                    ask(runtime, requests[number]), expected[number], 1e-5, 1e-6
                )
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask_often, args=(start,)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    wait_until(lambda: runtime.compiled("rank") == len(requests), 30)
    tensorflow.close()


def test_a_version_is_freed_while_a_shape_is_compiled(export: Path) -> None:
    runtime = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    for candidates in range(1, 9):
        ask(runtime, inputs_of(1, 5, candidates))
    runtime.close()


def test_another_version_asks_tensorflow_nothing_again(
    export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says of an operation's kernels is never freed."""
    session = TensorFlowSession(export)
    XlaTower(export, session, "rank")
    asked: list[str] = []
    monkeypatch.setattr(kernels, "get_registered_kernels_for_op", asked.append)
    XlaTower(export, session, "rank")
    assert not asked
    session.close()


def test_other_models_stay_in_tensorflow(export: Path, tmp_path: Path) -> None:
    """Where nothing is known of missing values, and where none is wanted."""
    foreign = tmp_path / "1"
    foreign.symlink_to(export, target_is_directory=True)
    kinds = {}
    for seconds in (0.0, 2.0):
        runtime = load_runtime(export, RuntimeChoice(compile_after=seconds))
        kinds[seconds] = type(runtime)
        runtime.close()
    assert kinds == {0.0: TensorFlowSession, 2.0: CompiledRuntime}
    (export / "manifest.json").unlink()
    runtime = load_runtime(export, RuntimeChoice())
    assert type(runtime) is TensorFlowSession
    runtime.close()
    (export / "manifest.json").write_text("{}")


def _operations(runtime: CompiledRuntime) -> list[Any]:
    return list(runtime._tensorflow.graph.get_operations())


def _said(runtime: CompiledRuntime, caplog: pytest.LogCaptureFixture, words: str) -> None:
    with caplog.at_level(logging.INFO, "serving"):
        ask(runtime, inputs_of(1, 2, 3))
        wait_until(lambda: words in caplog.text)
