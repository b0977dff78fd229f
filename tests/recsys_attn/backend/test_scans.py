"""A recurrence equals a loop, and compiles with its gradient at any length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from recsys_attn.backend.scans import last_state, states_before
from tests.support.arrays import assert_close
from tests.support.layer_case import tensorflow

X = np.random.default_rng(0).normal(size=(7, 2, 3)).astype("float32")


def states(x: Any) -> Any:
    return states_before(lambda state, now: 0.5 * state + now, ops.ones((2, 3)), x)


def last(x: Any) -> Any:
    return last_state(lambda state, now: 0.5 * state + now[0], ops.ones((2, 3)), (x,))


@pytest.mark.parametrize("length", [0, 1, 7])
def test_states_equal_a_loop(length: int) -> None:
    expected, state = np.zeros((length, 2, 3)), np.ones((2, 3))
    for t in range(length):
        expected[t], state = state, 0.5 * state + X[t]
    assert_close(states(X[:length]), expected)
    assert_close(last(X[:length]), state)


def test_gradient_compiles_for_any_length() -> None:
    tf = tensorflow()

    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(states(x)))
        return tape.gradient(loss, x)

    unknown = [tf.TensorSpec((None, None, 3))]
    compiled = tf.function(gradient, jit_compile=True, autograph=False, input_signature=unknown)
    for length in (3, 7):
        assert_close(compiled(tf.constant(X[:length])), gradient(tf.constant(X[:length])))
