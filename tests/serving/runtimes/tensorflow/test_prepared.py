"""A new version compiles the shapes of the version before it, before requests come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from serving.common.errors import Internal
from serving.runtimes.tensorflow import compiled
from serving.runtimes.tensorflow.compiled import CompiledRuntime
from serving.runtimes.tensorflow.session import TensorFlowSession
from serving.runtimes.tensorflow.xla_tower import XlaTower
from tests.serving.conftest import wait_until
from tests.serving.runtimes.tensorflow.conftest import ask, compiled_runtime, inputs_of


@pytest.fixture
def after(exports: Path) -> Iterator[CompiledRuntime]:
    """The next version."""
    after = compiled_runtime(exports / "fixed")
    yield after
    after.close()


def _compile(runtime: CompiledRuntime, *candidates: int) -> None:
    for number in candidates:
        ask(runtime, inputs_of(1, 2, number))
    wait_until(lambda: len(runtime.compiled) == len(set(candidates)))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The sizes that were compiled, in order."""
    found: list[tuple[int, ...]] = []
    check = CompiledRuntime._check

    def seen(runtime: CompiledRuntime, tower: XlaTower, shape: Any, inputs: Any) -> None:
        found.append(shape.sizes)
        check(runtime, tower, shape, inputs)

    monkeypatch.setattr(CompiledRuntime, "_check", seen)
    return found


def test_a_prepared_version_has_its_tower(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests would wait while it is added to the session."""
    runtime.prepare(None)
    runtime._background.run(lambda: None)
    monkeypatch.setattr(TensorFlowSession, "add", None)
    runtime.prepare(None)
    _compile(runtime, 3)


def test_first_version_serves_before_it_has_its_tower(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow answers alone, with the same scores."""
    inputs, may_add, add = inputs_of(1, 2, 3), threading.Event(), TensorFlowSession.add

    def slow(*arguments: Any) -> Any:
        assert may_add.wait(20.0)
        return add(*arguments)

    monkeypatch.setattr(TensorFlowSession, "add", slow)
    runtime.prepare(None)
    before = ask(runtime, inputs)
    assert runtime.compiled == []
    may_add.set()
    _compile(runtime, 3)
    np.testing.assert_allclose(ask(runtime, inputs), before, 1e-5, 1e-6)


def test_the_busiest_shapes_are_compiled_first(
    runtime: CompiledRuntime, after: CompiledRuntime, tried: list[tuple[int, ...]]
) -> None:
    _compile(runtime, 3, 5, 5)
    tried.clear()
    after.prepare(runtime)
    assert tried == [(1, 5), (1, 3)]
    for candidates in (3, 5):
        inputs = inputs_of(1, 2, candidates)
        np.testing.assert_allclose(ask(after, inputs), ask(runtime, inputs), 1e-5, 1e-6)
    after._background.run(lambda: None)
    assert len(tried) == 2, "they are not compiled again"


def test_a_shape_that_failed_is_not_taken_over(
    runtime: CompiledRuntime, after: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compile(runtime, 3, 5)

    def fail(*_: object) -> None:
        raise Internal("no memory")

    with monkeypatch.context() as failing:
        failing.setattr(XlaTower, "run", fail)
        ask(runtime, inputs_of(1, 2, 3))
    after.prepare(runtime)
    assert after.compiled == [(1, 5)]


def test_unused_shapes_are_dropped_in_the_end(runtime: CompiledRuntime, exports: Path) -> None:
    _compile(runtime, 3, 5, 5, 5)
    versions = [runtime]
    for expected in ([(1, 5), (1, 3)], [(1, 5)], []):
        versions.append(compiled_runtime(exports / "fixed"))
        versions[-1].prepare(versions[-2])
        assert versions[-1].compiled == expected
    for version in versions[1:]:
        version.close()


def test_a_version_does_not_wait_for_a_slow_compilation(
    runtime: CompiledRuntime,
    after: CompiledRuntime,
    tried: list[tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _compile(runtime, 3, 5)
    after.prepare(None)
    after._background.run(lambda: None)
    tried.clear()
    serves, run = threading.Event(), XlaTower.run

    def slow(*arguments: Any) -> Any:
        serves.wait(10.0)
        return run(*arguments)

    monkeypatch.setattr(XlaTower, "run", slow)
    monkeypatch.setattr(compiled, "_PREPARE_SECONDS", 0.2)
    after.prepare(runtime)
    assert after.compiled == []
    serves.set()
    wait_until(lambda: len(after.compiled) == 1)
    after._background.run(lambda: None)
    assert len(tried) == 1, "the next shape is not started any more"


def test_version_with_other_inputs_takes_over_no_shape(
    runtime: CompiledRuntime, after: CompiledRuntime
) -> None:
    _compile(runtime, 3)
    price = after.definitions["rank"].inputs["price"]
    price.dtype = tf.float64.as_datatype_enum
    after.prepare(runtime)
    assert after.compiled == []
    price.dtype = tf.float32.as_datatype_enum
    _compile(after, 3)
