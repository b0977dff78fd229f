"""What XLA compiles gives TensorFlow's scores; what it cannot, or not better, stays as it is."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from serving.errors import DeadlineExceeded, Internal
from serving.runtimes import compiled
from serving.runtimes.choice import RuntimeChoice, load_runtime
from serving.runtimes.compiled import CompiledRuntime
from serving.runtimes.tensorflow_session import TensorFlowSession
from serving.runtimes.xla_tower import XlaTower
from tests.serving.conftest import wait_until

WORDS = ("a", "b", "c")
AT_ONCE = 1e-9


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history and candidates: each event counts by how near it is to the candidate."""
    rng = np.random.default_rng(0)
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(WORDS), tf.range(1, 4, dtype=tf.int64)), 0
    )
    module.rows = tf.Variable(rng.normal(size=(4, 5)).astype("float32"))
    module.weights = tf.Variable(rng.normal(size=(5, 1)).astype("float32"))

    def click(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = module.table.lookup(seen)
        present = tf.cast(ids > 0, "float32")
        events = (tf.gather(module.rows, ids) @ module.weights)[..., 0]  # (B, S)
        known = tf.where(tf.math.is_nan(price), 0.0, price)  # (B, T)
        near = tf.sigmoid(events[:, None] * known[..., None])
        return {"click": tf.reduce_sum(near * present[:, None], -1)}

    def rows(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"click": click(seen, price[:, None])["click"][:, 0]}

    def known(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = tf.reshape(module.table.lookup(seen), (-1,))
        total = tf.reduce_sum(tf.gather(module.rows, tf.boolean_mask(ids, ids > 0)))
        return {"click": price + total}

    def signature(function: Any, *axes: None) -> Any:
        seen = tf.TensorSpec((None, None), tf.string, "seen")
        price = tf.TensorSpec(axes, tf.float32, "price")
        return tf.function(function).get_concrete_function(seen, price)

    path = tmp_path_factory.mktemp("compiled")
    ranks = {"serving_default": signature(rows, None), "rank": signature(click, None, None)}
    tf.saved_model.save(module, str(path / "1"), signatures=ranks)
    depends = {"serving_default": signature(known, None)}
    tf.saved_model.save(module, str(path / "2"), signatures=depends)
    for version in ("1", "2"):
        (path / version / "manifest.json").write_text("{}")
    return path / "1"


@pytest.fixture
def runtime(export: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CompiledRuntime]:
    monkeypatch.setattr(compiled, "_GAIN", np.inf)  # so small a model may be no faster
    runtime = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    yield runtime
    runtime.close()


def _inputs(rows: int, events: int, *candidates: int) -> dict[str, Any]:
    rng = np.random.default_rng((rows, events, *candidates))
    words = [word.encode() for word in rng.choice([*WORDS, "", "?"], rows * events)]
    return {
        "seen": np.array(words, object).reshape(rows, events),
        "price": rng.random((rows, *candidates)).astype("float32"),
    }


def _ask(runtime: CompiledRuntime, inputs: dict[str, Any]) -> np.ndarray:
    key = "rank" if inputs["price"].ndim == 2 else "serving_default"
    return runtime.run(key, inputs, ["click"], 60.0)["click"]


def test_compiled_shapes_score_as_tensorflow_does(runtime: CompiledRuntime, export: Path) -> None:
    """Those that are padded too, where nothing of the padding comes back."""
    tensorflow = TensorFlowSession(export)
    sizes = [(1, 33, 65), (1, 34, 68), (1, 0, 1), (3, 2), (33, 9), (2, 40, 5)]
    for count, size in enumerate(sizes):
        inputs = _inputs(*size)
        key = "rank" if len(size) == 3 else "serving_default"
        expected = tensorflow.run(key, inputs, ["click"], None)["click"]
        for _ in range(3):
            np.testing.assert_allclose(_ask(runtime, inputs), expected, 1e-5, 1e-6)
            wait_until(lambda: runtime.compiled("rank") + runtime.compiled("serving_default") >= 1)
        assert expected.shape == inputs["price"].shape, count
    wait_until(lambda: runtime.compiled("rank") == 3 and runtime.compiled("serving_default") == 2)
    for size in sizes:
        inputs = _inputs(*size)
        key = "rank" if len(size) == 3 else "serving_default"
        expected = tensorflow.run(key, inputs, ["click"], None)["click"]
        found = _ask(runtime, inputs)
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
    _ask(runtime, _inputs(1, 2, 3))
    assert not asked
    (shape,) = runtime._signatures["rank"].shapes
    shape.seconds = 1e6
    _ask(runtime, _inputs(1, 2, 4))
    assert not asked, "another shape"
    _ask(runtime, _inputs(1, 2, 3))
    assert asked == [(1, 3)]
    runtime.close()


def test_other_scores_are_not_used(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = XlaTower.run

    def other(*arguments: Any) -> dict[str, np.ndarray]:
        return {name: array + 1e-3 for name, array in run(*arguments).items()}

    monkeypatch.setattr(XlaTower, "run", other)
    _said(runtime, caplog, "the output click would be another than before")
    assert runtime.compiled("rank") == 0


def test_what_is_no_faster_is_not_used(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "_GAIN", 0.0)
    _said(runtime, caplog, "it stays as it is")
    assert runtime.compiled("rank") == 0


def test_what_has_other_shapes_with_other_values_is_not_compiled(
    export: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A request would have to wait for XLA."""
    path = export.parent / "2"
    runtime = CompiledRuntime(path, TensorFlowSession(path), AT_ONCE)
    with caplog.at_level(logging.INFO, "serving"):
        inputs = _inputs(2, 7)
        expected = _ask(runtime, inputs)
        wait_until(lambda: "depends on values" in caplog.text)
    assert runtime.compiled("serving_default") == 0
    np.testing.assert_array_equal(_ask(runtime, inputs), expected)
    runtime.close()


def test_what_fails_when_it_is_compiled_is_computed_by_tensorflow(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = _inputs(1, 2, 3)
    expected = _ask(runtime, inputs)
    wait_until(lambda: runtime.compiled("rank") == 1)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(XlaTower, "run", fail)
    error: Exception = DeadlineExceeded("too late")
    with pytest.raises(DeadlineExceeded, match="too late"):
        _ask(runtime, inputs)
    error = Internal("no memory")
    np.testing.assert_array_equal(_ask(runtime, inputs), expected)
    assert "no memory" in caplog.text
    assert runtime.compiled("rank") == 0


def test_requests_go_on_while_shapes_are_compiled(runtime: CompiledRuntime, export: Path) -> None:
    """Of many callers at once none gets another's score, nor an error."""
    tensorflow = TensorFlowSession(export)
    requests = [_inputs(1, events, 5) for events in range(1, 12)]
    expected = [tensorflow.run("rank", one, ["click"], None)["click"] for one in requests]
    wrong: list[object] = []

    def ask(start: int) -> None:
        try:
            for turn in range(60):
                number = (start + turn) % len(requests)
                np.testing.assert_allclose(
                    _ask(runtime, requests[number]), expected[number], 1e-5, 1e-6
                )
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    wait_until(lambda: runtime.compiled("rank") == len(requests), 30)
    tensorflow.close()


def test_a_version_is_freed_while_a_shape_is_compiled(export: Path) -> None:
    runtime = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    for events in range(1, 9):
        _ask(runtime, _inputs(1, events, 5))
    runtime.close()


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


def _said(runtime: CompiledRuntime, caplog: pytest.LogCaptureFixture, words: str) -> None:
    with caplog.at_level(logging.INFO, "serving"):
        _ask(runtime, _inputs(1, 2, 3))
        wait_until(lambda: words in caplog.text)
