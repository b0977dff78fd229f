"""DIEN's recurrences against their equations, one event at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.blocks import AttentionalGru
from tests.support.arrays import assert_close, numpy
from tests.support.layer_case import tensorflow
from tests.support.references.histories import attentional_gru, randomise

B, T, S, E, U = 3, 2, 5, 4, 7


def made(kind: str) -> AttentionalGru:
    layer = AttentionalGru(kind, units=U)
    layer.build((B, S, E))
    randomise(layer)
    return layer


def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    present = rng.random((B, S)) < 0.6
    present[0], present[-1] = True, False
    events = rng.normal(size=(B, S, E)).astype("float32")
    return events, rng.random((B, T, S)).astype("float32"), present


@pytest.mark.parametrize("kind", ["augru", "agru", "aigru"])
def test_equals_the_equations_event_by_event(kind: str) -> None:
    """At padding, also between events, the state stays; without events it is zero."""
    layer = made(kind)
    events, weights, present = inputs()
    expected = np.zeros((B, T, U))
    for b, t in np.ndindex(B, T):
        here = present[b]
        expected[b, t] = attentional_gru(layer, events[b, here], weights[b, t, here])
    found = layer(events, weights, present=present)
    assert_close(found, expected)
    assert not numpy(found)[-1].any()


def test_whole_attention_leaves_a_plain_gru() -> None:
    """With weights of 1 attention changes neither the update gate nor the input."""
    events, weights, present = inputs()
    scaled_gate, scaled_input = made("augru"), made("aigru")
    ones = np.ones_like(weights)
    assert_close(scaled_gate(events, ones, present), scaled_input(events, ones, present))
    assert not numpy(scaled_gate(events, 0 * ones, present)).any()


def test_gradient_compiles_for_any_sizes() -> None:
    tf = tensorflow()
    layer, (events, weights, present) = made("augru"), inputs()

    def gradients(events: Any, weights: Any, present: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([events, weights])
            loss = tf.reduce_sum(tf.square(layer(events, weights, present)))
        return tape.gradient(loss, [events, weights, *layer.trainable_variables])

    unknown = [
        tf.TensorSpec((None, None, E)),
        tf.TensorSpec((None, None, None)),
        tf.TensorSpec((None, None), tf.bool),
    ]
    compiled = tf.function(gradients, jit_compile=True, autograph=False, input_signature=unknown)
    tensors = [tf.constant(x) for x in (events, weights, present)]
    for found, expected in zip(compiled(*tensors), gradients(*tensors), strict=True):
        assert_close(found, expected)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`kind` must be a name.*Did you mean 'augru'"):
        AttentionalGru("augr")
