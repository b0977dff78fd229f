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
from tensorflow.python.framework import kernels

from serving.errors import DeadlineExceeded, Internal, InvalidArgument
from serving.runtimes import compiled
from serving.runtimes.choice import RuntimeChoice, load_runtime
from serving.runtimes.compiled import CompiledRuntime
from serving.runtimes.tensorflow_session import TensorFlowSession
from serving.runtimes.xla_tower import XlaTower
from tests.serving.conftest import wait_until

WORDS = ("a", "b", "c")
EVENTS = 40
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
        ids = kept(module.table.lookup(seen))
        present = tf.cast(ids > 0, "float32")
        events = (tf.gather(module.rows, ids) @ module.weights)[..., 0]  # (B, S)
        known = tf.where(tf.math.is_nan(price), 0.0, price)  # (B, T)
        near = tf.sigmoid(events[:, None] * known[..., None])
        total = tf.reduce_sum(near * present[:, None], -1)
        return {"click": total, "twice": 2 * total}

    def kept(ids: tf.Tensor) -> tf.Tensor:
        """Lists of one length, as those of an export of this project."""
        return tf.pad(ids[:, :EVENTS], [[0, 0], [0, tf.maximum(EVENTS - tf.shape(ids)[1], 0)]])

    def rows(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"click": click(seen, price[:, None])["click"][:, 0]}

    def known(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = tf.reshape(module.table.lookup(seen), (-1,))
        total = tf.reduce_sum(tf.gather(module.rows, tf.boolean_mask(ids, ids > 0)))
        return {"click": price + total}

    def listed(seen: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        events = tf.gather(module.rows, module.table.lookup(seen)) @ module.weights  # (B, S, 1)
        return {"click": price + tf.reduce_sum(events, (1, 2))}

    def signature(function: Any, *axes: None) -> Any:
        seen = tf.TensorSpec((None, None), tf.string, "seen")
        price = tf.TensorSpec(axes, tf.float32, "price")
        return tf.function(function).get_concrete_function(seen, price)

    path = tmp_path_factory.mktemp("compiled")
    ranks = {"serving_default": signature(rows, None), "rank": signature(click, None, None)}
    tf.saved_model.save(module, str(path / "1"), signatures=ranks)
    for version, function in (("2", known), ("3", listed)):
        depends = {"serving_default": signature(function, None)}
        tf.saved_model.save(module, str(path / version), signatures=depends)
    for version in ("1", "2", "3"):
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
    (shape,) = runtime._signatures["rank"].known()
    shape.seconds = 1e6
    _ask(runtime, _inputs(1, 2, 4))
    assert not asked, "another shape"
    _ask(runtime, _inputs(1, 2, 3))
    assert asked == [(1, 3)]
    runtime.close()


def test_other_scores_are_not_used(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is what was compiled before: it may be no better with other values."""
    _ask(runtime, _inputs(1, 2, 5))
    wait_until(lambda: runtime.compiled("rank") == 1)
    run = XlaTower.run

    def other(*arguments: Any) -> dict[str, np.ndarray]:
        return {name: array + 1e-3 for name, array in run(*arguments).items()}

    monkeypatch.setattr(XlaTower, "run", other)
    _said(runtime, caplog, "would be another than before")
    assert runtime.compiled("rank") == 0
    monkeypatch.undo()
    _ask(runtime, _inputs(1, 2, 7))
    runtime._background.run(lambda: None)
    assert runtime.compiled("rank") == 0


def test_what_is_no_faster_is_not_used(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "_GAIN", 0.0)
    _said(runtime, caplog, "it stays as it is")
    assert runtime.compiled("rank") == 0


@pytest.mark.parametrize("version", ["2", "3"])
def test_what_has_other_shapes_with_other_values_or_lists_is_not_compiled(
    export: Path, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A request would have to wait for XLA."""
    path = export.parent / version
    runtime = CompiledRuntime(path, TensorFlowSession(path), AT_ONCE)
    with caplog.at_level(logging.INFO, "serving"):
        inputs = _inputs(2, 7)
        expected = _ask(runtime, inputs)
        wait_until(lambda: "depends on values or lists" in caplog.text)
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


def test_values_that_tensorflow_refuses_too_change_nothing(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = _inputs(1, 2, 3)
    _ask(runtime, inputs)
    wait_until(lambda: runtime.compiled("rank") == 1)

    def refuse(*_: object) -> None:
        raise InvalidArgument("no number")

    for kind in (XlaTower, TensorFlowSession):
        monkeypatch.setattr(kind, "run", refuse)
    with pytest.raises(InvalidArgument, match="no number"):
        _ask(runtime, inputs)
    assert runtime.compiled("rank") == 1


def test_lists_of_all_lengths_have_one_shape(runtime: CompiledRuntime, export: Path) -> None:
    tensorflow = TensorFlowSession(export)
    for events in (3, 0, 1, 33, 97):
        inputs = _inputs(2, events, 5)
        expected = tensorflow.run("rank", inputs, ["click"], None)["click"]
        np.testing.assert_allclose(_ask(runtime, inputs), expected, 1e-5, 1e-6)
        wait_until(lambda: runtime.compiled("rank") == 1)
    assert len(runtime._signatures["rank"].known()) == 1
    tensorflow.close()


def test_so_many_shapes_are_compiled_and_no_more(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are no faster count too: XLA keeps what it has made of them."""
    monkeypatch.setattr(compiled, "_MOST", 3)
    tried: list[object] = []
    monkeypatch.setattr(runtime, "_compile", lambda key, shape, inputs: tried.append(shape))
    for candidates in range(1, 9):
        _ask(runtime, _inputs(1, 5, candidates))
    runtime._background.run(lambda: None)
    assert len(tried) == 3


def test_all_choices_of_outputs_are_computed_alike(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request of another one would hold up all others."""
    inputs = _inputs(1, 2, 3)
    expected = _ask(runtime, inputs)
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
    requests = [_inputs(1, count, count) for count in range(1, 12)]
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
    for candidates in range(1, 9):
        _ask(runtime, _inputs(1, 5, candidates))
    runtime.close()


def test_towers_are_there_before_requests_come(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of all signatures: requests would wait while one is added to the session."""
    runtime.prepare(None)
    added: list[str] = []
    monkeypatch.setattr(TensorFlowSession, "add", lambda session, key, *_: added.append(key))
    _ask(runtime, _inputs(1, 2, 3))
    _ask(runtime, _inputs(1, 2))
    wait_until(lambda: runtime.compiled("rank") == runtime.compiled("serving_default") == 1)
    assert not added


def test_a_version_compiles_what_the_one_before_has_compiled(
    runtime: CompiledRuntime, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And adds no tower that was of no use there."""
    small, large = _inputs(1, 2, 3), _inputs(2, 30, 40)
    for request in (small, large, large):
        _ask(runtime, request)
    wait_until(lambda: runtime.compiled("rank") == 2)
    tried: list[tuple[int, ...]] = []
    compare = CompiledRuntime._compare

    def seen(after: CompiledRuntime, key: str, tower: XlaTower, shape: Any, inputs: Any) -> Any:
        tried.append(shape.sizes)
        return compare(after, key, tower, shape, inputs)

    monkeypatch.setattr(CompiledRuntime, "_compare", seen)
    after = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    after.prepare(runtime)
    assert tried == [(2, 40), (1, 3)], "the one with more requests first"
    assert after.compiled("rank") == 2
    assert after._signatures["serving_default"].tower is None
    for request in (small, large):
        np.testing.assert_allclose(_ask(after, request), _ask(runtime, request), 1e-5, 1e-6)
    after._background.run(lambda: None)
    assert len(tried) == 2, "these are decided"
    after.close()


def test_taking_over_ends_in_time(
    runtime: CompiledRuntime, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ask(runtime, _inputs(1, 2, 3))
    wait_until(lambda: runtime.compiled("rank") == 1)
    monkeypatch.setattr(compiled, "_TAKE_OVER_SECONDS", -1.0)
    after = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    after.prepare(runtime)
    assert after.compiled("rank") == 0
    assert after._signatures["rank"].tower is not None
    after.close()


def test_a_version_with_other_inputs_takes_nothing_over(
    runtime: CompiledRuntime, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the version before was sent says nothing of it, and would only fail."""
    _ask(runtime, _inputs(1, 2, 3))
    wait_until(lambda: runtime.compiled("rank") == 1)
    after = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    after.definitions["rank"].inputs["price"].dtype = tf.float64.as_datatype_enum
    after.prepare(runtime)
    assert after.compiled("rank") == 0
    after.definitions["rank"].inputs["price"].dtype = tf.float32.as_datatype_enum
    _ask(after, _inputs(1, 2, 3))
    wait_until(lambda: after.compiled("rank") == 1)
    after.close()


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


def _said(runtime: CompiledRuntime, caplog: pytest.LogCaptureFixture, words: str) -> None:
    with caplog.at_level(logging.INFO, "serving"):
        _ask(runtime, _inputs(1, 2, 3))
        wait_until(lambda: words in caplog.text)
