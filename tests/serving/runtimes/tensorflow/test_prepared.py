"""A version is prepared before requests come, by what the one before it has compiled."""

from __future__ import annotations

import threading
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
from tests.serving.runtimes.conftest import AT_ONCE, ask, inputs_of


def test_towers_are_there_before_requests_come(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of all signatures: requests would wait while one is added to the session."""
    runtime.prepare(None)
    added: list[str] = []
    monkeypatch.setattr(TensorFlowSession, "add", lambda session, key, *_: added.append(key))
    ask(runtime, inputs_of(1, 2, 3))
    ask(runtime, inputs_of(1, 2))
    wait_until(lambda: runtime.compiled("rank") == runtime.compiled("serving_default") == 1)
    assert not added


def test_a_version_compiles_what_the_one_before_has_compiled(
    runtime: CompiledRuntime, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And adds no tower that was of no use there."""
    small, large = inputs_of(1, 2, 3), inputs_of(2, 30, 40)
    for request in (small, large, large):
        ask(runtime, request)
    wait_until(lambda: runtime.compiled("rank") == 2)
    tried: list[tuple[int, ...]] = []
    compile_one = CompiledRuntime._try

    def seen(after: CompiledRuntime, key: str, tower: XlaTower, shape: Any, inputs: Any) -> None:
        tried.append(shape.sizes)
        compile_one(after, key, tower, shape, inputs)

    monkeypatch.setattr(CompiledRuntime, "_try", seen)
    after = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    after.prepare(runtime)
    assert tried == [(2, 40), (1, 3)], "the one with more requests first"
    assert after.compiled("rank") == 2
    assert after._signatures["serving_default"].tower is None
    for request in (small, large):
        np.testing.assert_allclose(ask(after, request), ask(runtime, request), 1e-5, 1e-6)
    after._background.run(lambda: None)
    assert len(tried) == 2, "these are decided"
    after.close()


def test_where_the_one_before_has_compiled_nothing_all_towers_are_there(
    runtime: CompiledRuntime, export: Path
) -> None:
    """It was loaded a moment ago, or few requests came: that says nothing of those to come."""
    after = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    after.prepare(runtime)
    assert all(one.tower is not None for one in after._signatures.values())
    after.close()


def test_what_the_one_before_does_not_use_any_more_is_not_taken_over(
    runtime: CompiledRuntime, export: Path
) -> None:
    for candidates in (3, 5):
        ask(runtime, inputs_of(1, 2, candidates))
    ask(runtime, inputs_of(1, 2))
    wait_until(lambda: runtime.compiled("rank") + runtime.compiled("serving_default") == 3)
    runtime._signatures["serving_default"].fail("serving_default", Internal("other scores"))
    runtime._signatures["rank"].shape_of(inputs_of(1, 2, 3)).tower = None
    after = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    after.prepare(runtime)
    assert [one.sizes for one in after._signatures["rank"].known()] == [(1, 5)]
    assert not after._signatures["serving_default"].known()
    after.close()


def test_a_shape_that_nobody_asks_for_any_more_is_not_taken_over_for_ever(
    runtime: CompiledRuntime, export: Path
) -> None:
    """It would take a place, and seconds of each version to come; a quick successor has it."""
    for candidates in (3, 5, 5, 5):
        ask(runtime, inputs_of(1, 2, candidates))
    wait_until(lambda: runtime.compiled("rank") == 2)
    versions, found = [runtime], []
    for _ in range(3):
        versions.append(CompiledRuntime(export, TensorFlowSession(export), AT_ONCE))
        versions[-1].prepare(versions[-2])
        found.append([one.sizes for one in versions[-1]._signatures["rank"].known()])
    assert found == [[(1, 5), (1, 3)], [(1, 5)], []]
    for version in versions[1:]:
        version.close()


def test_a_version_serves_in_time_and_compiles_the_shape_that_took_long_beside_requests(
    runtime: CompiledRuntime, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for candidates in (3, 5):
        ask(runtime, inputs_of(1, 2, candidates))
    wait_until(lambda: runtime.compiled("rank") == 2)
    after = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    after.prepare(None)
    serves, tried = threading.Event(), []
    compile_one = CompiledRuntime._try

    def slow(*arguments: Any) -> None:
        tried.append(arguments)
        serves.wait(10.0)
        compile_one(*arguments)

    monkeypatch.setattr(CompiledRuntime, "_try", slow)
    monkeypatch.setattr(compiled, "_PREPARE_SECONDS", 0.5)
    after.prepare(runtime)
    assert after.compiled("rank") == 0
    serves.set()
    wait_until(lambda: after.compiled("rank") == 1)
    after._background.run(lambda: None)
    assert len(tried) == 1, "the other is not begun any more"
    after.close()


def test_what_a_warmup_has_compiled_is_prepared_once(
    runtime: CompiledRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[str] = []
    init = XlaTower.__init__

    def seen(tower: XlaTower, path: Path, session: TensorFlowSession, key: str) -> None:
        added.append(key)
        init(tower, path, session, key)

    monkeypatch.setattr(XlaTower, "__init__", seen)
    ask(runtime, inputs_of(1, 2, 3))
    runtime.prepare(None)
    assert sorted(added) == ["rank", "serving_default"]


def test_what_has_failed_in_a_warmup_gets_no_tower(runtime: CompiledRuntime) -> None:
    runtime._signatures["rank"].fail("rank", Internal("other scores"))
    runtime.prepare(None)
    assert runtime._signatures["rank"].tower is None


def test_a_version_with_other_inputs_takes_nothing_over(
    runtime: CompiledRuntime, export: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the version before was sent says nothing of it, and would only fail."""
    ask(runtime, inputs_of(1, 2, 3))
    wait_until(lambda: runtime.compiled("rank") == 1)
    after = CompiledRuntime(export, TensorFlowSession(export), AT_ONCE)
    after.definitions["rank"].inputs["price"].dtype = tf.float64.as_datatype_enum
    after.prepare(runtime)
    assert after.compiled("rank") == 0
    after.definitions["rank"].inputs["price"].dtype = tf.float32.as_datatype_enum
    ask(after, inputs_of(1, 2, 3))
    wait_until(lambda: after.compiled("rank") == 1)
    after.close()
