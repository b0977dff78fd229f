"""Heads are seen at each call of a mechanism, once, and their output may be changed."""

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.attention import (
    Dense,
    HeadGroups,
    HeadsCall,
    MultiHeadAttention,
    dense_weights,
    watch_heads,
)

MECHANISMS = [
    "transformer",
    "linformer",
    "linear_transformer",
    {"class_name": "local", "config": {"window": 2}},
    {"class_name": "reformer", "config": {"size": 4, "buckets": 4, "rounds": 2}},
    HeadGroups([Dense(), "linear_transformer"], [1, 1]),
]


@pytest.fixture
def events() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(2, 8, 6)).astype("float32")


def seen_by(layer: keras.layers.Layer, events: np.ndarray) -> list[HeadsCall]:
    calls: list[HeadsCall] = []

    def visit(call: HeadsCall) -> HeadsCall:
        calls.append(call)
        return call

    with watch_heads(visit):
        watched = layer(events)
    np.testing.assert_allclose(watched, layer(events), rtol=1e-5, atol=1e-6)
    return calls


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_a_mechanism_of_any_parts_is_seen_once(mechanism: object, events: np.ndarray) -> None:
    layer = MultiHeadAttention(2, 4, mechanism)
    (call,) = seen_by(layer, events)
    assert call.mechanism is layer.mechanism
    assert tuple(call.output.shape) == (2, 8, 2, 4)
    if layer.mechanism.returns_weights or layer.mechanism.weights_on_request:
        _, expected = layer(events, return_weights=True)
        found, expected = (dense_weights(each, 8, 8) for each in (call.weights, expected))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    else:
        assert call.weights is None


def test_a_changed_output_is_used(events: np.ndarray) -> None:
    layer = MultiHeadAttention(2, 4, use_bias=False)
    layer(events)

    def scaled(*by_head: float) -> object:
        factors = ops.array(by_head)[:, None]
        with watch_heads(lambda call: call._replace(output=call.output * factors)):
            return layer(events)

    without_first, without_second = scaled(0.0, 1.0), scaled(1.0, 0.0)
    np.testing.assert_allclose(without_first + without_second, layer(events), atol=1e-6)
    assert np.abs(np.asarray(without_first)).max() > 0.01


def test_no_call_is_seen_after_the_block(events: np.ndarray) -> None:
    layer = MultiHeadAttention(2, 4)
    calls = seen_by(layer, events)
    layer(events)
    assert len(calls) == 1
