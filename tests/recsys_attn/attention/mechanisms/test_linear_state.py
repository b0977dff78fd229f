"""Linear attention as a recurrence: a state of a fixed size instead of the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.attention.mechanisms import Linear, LinearState
from tests.recsys_attn.attention.mechanisms.test_linear import (
    KEY,
    KEY_MASK,
    QUERY,
    RFA,
    SELF,
    VALUE,
    B,
    every_map,
    run,
)
from tests.support.arrays import assert_close
from tests.support.layer_case import tensorflow

every_decay = pytest.mark.parametrize("decay", [None, "fixed", RFA, "channel_gate"], ids=str)


def step_by_step(layer: Linear, query: np.ndarray, key: np.ndarray, value: np.ndarray) -> Any:
    state, outputs = layer.initial_state(len(key)), []
    for t in range(key.shape[1]):
        now = slice(t, t + 1)
        output, state = layer.step(query[:, now], key[:, now], value[:, now], state)
        outputs.append(output)
    return ops.convert_to_numpy(ops.concatenate(outputs, axis=1)), state


@pytest.mark.sampled(9)
@every_map
@every_decay
def test_causal_form_equals_the_recurrence(make: Callable[[], Any], decay: Any) -> None:
    layer = Linear(make(), causal=True, chunk=4, decay=decay)
    parallel = run(layer, SELF, KEY, VALUE)
    recurrent, state = step_by_step(layer, SELF, KEY, VALUE)
    assert_close(recurrent, parallel)
    for kept, after in zip(state, layer.initial_state(B), strict=True):
        assert kept.shape == after.shape


@pytest.mark.sampled(3)
@every_map
@every_decay
def test_events_may_come_in_portions_with_padding(make: Callable[[], Any], decay: Any) -> None:
    layer = Linear(make(), decay=decay)
    layer.build(QUERY.shape, KEY.shape, VALUE.shape)
    empty = layer.initial_state(B)
    whole = layer.update(empty, KEY, VALUE, key_mask=KEY_MASK)
    first = layer.update(empty, KEY[:, :4], VALUE[:, :4], key_mask=KEY_MASK[:, :4])
    both = layer.update(first, KEY[:, 4:], VALUE[:, 4:], key_mask=KEY_MASK[:, 4:])
    for actual, expected in zip(both, whole, strict=True):
        assert_close(actual, expected)
    np.testing.assert_array_equal(layer.read(empty, QUERY), 0)


@pytest.mark.sampled(3)
@every_map
@every_decay
def test_reading_the_state_equals_a_call_over_the_history(
    make: Callable[[], Any], decay: Any
) -> None:
    layer = Linear(make(), decay=decay)
    expected = run(layer, QUERY, KEY, VALUE, key_mask=KEY_MASK)
    state = layer.update(layer.initial_state(B), KEY, VALUE, key_mask=KEY_MASK)
    # Epsilon is added to exponentials that are relative to their maximum in one form only.
    atol = 1e-4 if getattr(layer.feature_map, "kernel", "") == "softmax" else 1e-5
    np.testing.assert_allclose(layer.read(state, QUERY), expected, rtol=1e-4, atol=atol)


def test_candidates_read_one_state_without_copies_of_it() -> None:
    layer = Linear()
    expected = run(layer, QUERY, KEY[:1], VALUE[:1])
    repeated = run(layer, QUERY, *[np.repeat(x[:1], B, axis=0) for x in (KEY, VALUE)])
    state = layer.update(layer.initial_state(1), KEY[:1], VALUE[:1])
    np.testing.assert_allclose(expected, repeated, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.read(state, QUERY), repeated, rtol=1e-5, atol=1e-6)


def test_the_state_goes_through_a_graph_and_a_store() -> None:
    layer = Linear("softmax")
    expected = run(layer, QUERY, KEY, VALUE)
    if keras.backend.backend() == "tensorflow":
        update = tensorflow().function(layer.update)
    elif keras.backend.backend() == "jax":
        import jax

        update = jax.jit(layer.update)
    else:
        update = layer.update
    state = update(layer.initial_state(B), KEY[:, :5], VALUE[:, :5])
    stored = {name: ops.convert_to_numpy(sums) for name, sums in state._asdict().items()}
    state = update(LinearState(**stored), KEY[:, 5:], VALUE[:, 5:])
    assert_close(layer.read(state, QUERY), expected)
