"""Heads are seen at each call of a mechanism, once, and their output may be changed."""

from collections.abc import Callable
from typing import Any

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


@pytest.mark.sampled(3)
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


def edit(call: HeadsCall) -> HeadsCall:
    return call._replace(output=call.output + 2.0)


def predictor(events: np.ndarray) -> keras.Model:
    inputs = keras.Input(events.shape[1:])
    model = keras.Model(inputs, MultiHeadAttention(2, 4)(inputs))
    model.compile()
    return model


def compiled(model: keras.Model) -> Callable[[np.ndarray], Any]:
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(lambda x: model(x))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(lambda x: model(x))
    pytest.skip("this backend traces no functions")


@pytest.mark.parametrize("traced_before", [False, True])
def test_an_edit_is_not_kept_by_a_traced_function(traced_before: bool, events: np.ndarray) -> None:
    model = predictor(events)
    for call in (compiled(model), lambda x: model.predict(x, verbose=0)):
        expected = model(events)
        if traced_before:
            call(events)
        with pytest.raises(RuntimeError, match="Received: 0 such calls"), watch_heads(edit):
            call(events)
        np.testing.assert_allclose(call(events), expected, rtol=1e-5, atol=1e-6)


def test_a_block_in_a_traced_function_is_of_its_calls(events: np.ndarray) -> None:
    model = predictor(events)

    def edited(x: Any) -> Any:
        with watch_heads(edit) as seen:
            output = model(x)
        assert seen.calls == 1
        return output

    with watch_heads(edit):
        expected = model(events)
    np.testing.assert_allclose(compiled(edited)(events), expected, rtol=1e-5, atol=1e-6)
    assert np.abs(ops.convert_to_numpy(expected - model(events))).max() > 0.1


def test_a_layer_may_be_built_inside_the_block(events: np.ndarray) -> None:
    """Keras traces a layer without `build` for its shapes before the call that is seen."""

    class Unbuilt(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.output_layer = MultiHeadAttention(2, 4), keras.layers.Dense(3)

        def call(self, inputs: Any) -> Any:
            return self.output_layer(self.attention(inputs))

    with watch_heads(lambda call: call) as seen:
        Unbuilt()(events)
    assert seen.calls == 1


def test_a_traced_call_after_a_seen_one_is_refused(events: np.ndarray) -> None:
    model = predictor(events)
    refused = pytest.raises(RuntimeError, match="Received: 1 such calls, and a call of a traced")
    with refused, watch_heads(edit):
        model(events)
        compiled(model)(events)


def test_the_first_call_of_a_model_without_build_is_seen(events: np.ndarray) -> None:
    """Keras traces it for its shapes before it runs it."""

    class Whole(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.attention = MultiHeadAttention(2, 4)

        def call(self, inputs: Any) -> Any:
            return self.attention(inputs)

    with watch_heads(edit) as seen:
        Whole()(events)
    assert seen.calls == 1


@pytest.mark.parametrize(
    ("visit", "words"),
    [
        (lambda call: None, "`visit` must return the call.*Received: NoneType"),
        (lambda call: call.output, "`visit` must return the call"),
        (lambda call: call._replace(value=2 * call.value), r"changed \['value'\]"),
        (lambda call: call._replace(weights=2 * call.weights), r"changed \['weights'\]"),
        (lambda call: call._replace(masks=call.masks._replace(key=None)), r"changed \['masks'\]"),
        (lambda call: call._replace(output=2 * call.output, value=0), r"\['value', 'output'\]"),
        (lambda call: call._replace(output=call.output[..., :1, :]), r"`visit` must return output"),
        (
            lambda call: call._replace(output=call.output + 1, weights=call.weights[0]),
            "`visit` must return weights of the same shape",
        ),
    ],
)
def test_what_a_visit_may_not_return_is_named(visit: Any, words: str, events: np.ndarray) -> None:
    with pytest.raises((TypeError, ValueError), match=words), watch_heads(visit):
        MultiHeadAttention(2, 4)(events)


def test_other_weights_with_another_output_are_taken(events: np.ndarray) -> None:
    layer = MultiHeadAttention(2, 4)
    output, weights = layer(events, return_weights=True)
    with watch_heads(lambda call: call._replace(output=0 * call.output, weights=0 * call.weights)):
        without, none = layer(events, return_weights=True)
    assert np.abs(ops.convert_to_numpy(output - without)).max() > 0.01
    np.testing.assert_array_equal(none, np.zeros(weights.shape))
