"""Disagreement equals loops over pairs of heads, reaches the loss of `fit`, and pushes apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.attention import Dense
from recsys_attn.attention.disagreement import Disagreement
from tests.support.gradients import gradient
from tests.support.layer_case import tensorflow
from tests.support.references.gates import mean_cosine, mean_overlap

B, T, S, N, V = 5, 3, 7, 2, 11
RNG = np.random.default_rng(0)
VALUE, OUTPUT = (RNG.normal(size=(B, size, N, V)).astype("float32") for size in (S, T))
WEIGHTS = RNG.random((B, N, T, S)).astype("float32")
QUERY_MASK, KEY_MASK = RNG.random((B, T)) < 0.6, RNG.random((B, S)) < 0.6
JIT = "auto" if keras.backend.backend() == "jax" else False


def losses(layer: Disagreement, *arrays: Any, **masks: Any) -> list[float]:
    layer(*arrays, **masks, training=True)
    return [float(ops.convert_to_numpy(loss)) for loss in layer.losses]


@pytest.mark.parametrize("masked", [False, True])
def test_each_term_equals_a_loop_over_pairs_of_heads(masked: bool) -> None:
    queries, keys = (QUERY_MASK, KEY_MASK) if masked else (np.ones((B, T)), np.ones((B, S)))
    masks = {"query_mask": QUERY_MASK, "key_mask": KEY_MASK} if masked else {}
    value = VALUE.copy()
    value[0, 0, 1] = 0  # has no direction
    actual = losses(Disagreement(2.0, 3.0, 5.0), value, WEIGHTS, OUTPUT, **masks)
    expected = [
        2 * mean_cosine(value, keys),
        3 * mean_overlap(WEIGHTS, queries),
        5 * mean_cosine(OUTPUT, queries),
    ]
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_shared_values_count_for_every_row_that_has_them() -> None:
    layer = Disagreement(subspace=1.0)
    shared = losses(layer, VALUE[:1], None, OUTPUT, key_mask=KEY_MASK)
    repeated = np.repeat(VALUE[:1], B, axis=0)
    np.testing.assert_allclose(shared, [mean_cosine(repeated, KEY_MASK)], rtol=1e-5)


def test_equal_heads_have_similarity_one() -> None:
    layer = Disagreement(1.0, 1.0, 1.0)
    same = np.repeat(OUTPUT[:, :, :1], N, axis=2)
    assert losses(layer, VALUE, WEIGHTS, same)[2] == pytest.approx(1, rel=1e-5)
    nothing = {"query_mask": np.zeros((B, T), bool), "key_mask": np.zeros((B, S), bool)}
    assert losses(layer, VALUE, WEIGHTS, OUTPUT, **nothing) == [0, 0, 0]


def test_only_training_adds_to_the_loss() -> None:
    layer = Disagreement(1.0, 1.0, 1.0)
    np.testing.assert_array_equal(layer(VALUE, WEIGHTS, OUTPUT), OUTPUT)
    assert layer.losses == []
    np.testing.assert_array_equal(layer(VALUE, WEIGHTS, OUTPUT, training=True), OUTPUT)
    assert len(layer.losses) == 3


def attention_model(penalty: Disagreement, **dense: Any) -> keras.Model:
    """Attention whose values are learned, and nothing else to learn them from."""
    inputs = keras.Input((S, V), name="inputs")
    mask = keras.Input((S,), dtype="bool", name="mask")
    value = keras.layers.Reshape((S, N, V))(keras.layers.Dense(N * V, name="value")(inputs))
    output, weights = Dense(**dense)(value, value, value, query_mask=mask, key_mask=mask)
    output = penalty(value, weights, output, query_mask=mask, key_mask=mask)
    return keras.Model([inputs, mask], [output, weights, value])


def compile_without_loss(model: keras.Model, learning_rate: float) -> None:
    model.compile(
        keras.optimizers.SGD(learning_rate),
        [lambda y, predicted: 0.0 * ops.mean(predicted)] * 3,
        jit_compile=JIT,
    )


def fit(model: keras.Model, epochs: int) -> list[float]:
    inputs = [np.ascontiguousarray(VALUE[:, :, 0]), KEY_MASK]
    targets = [np.zeros(B)] * 3
    return model.fit(inputs, targets, batch_size=B, epochs=epochs, verbose=0).history["loss"]


def test_the_loss_of_fit_has_all_three_terms() -> None:
    model = attention_model(Disagreement(2.0, 3.0, 5.0))
    inputs = [VALUE[:, :, 0], KEY_MASK]
    output, weights, value = (ops.convert_to_numpy(x) for x in model(inputs))
    expected = (
        2 * mean_cosine(value, KEY_MASK)
        + 3 * mean_overlap(weights, KEY_MASK)
        + 5 * mean_cosine(output, KEY_MASK)
    )
    compile_without_loss(model, learning_rate=0.0)
    np.testing.assert_allclose(fit(model, 2), expected, rtol=1e-4)


class Inner(keras.layers.Layer):
    """Calls the penalty and drops what it returns, as a layer around an attention may."""

    def __init__(self) -> None:
        super().__init__()
        self.penalty = Disagreement(outputs=5.0)

    def call(self, output: Any) -> Any:
        self.penalty(output, None, output)
        return output

    def compute_output_shape(self, output_shape: tuple[int | None, ...]) -> Any:
        return output_shape


def test_inside_a_layer_it_reaches_the_loss_of_fit() -> None:
    inputs = keras.Input((T, N, V))
    hidden = keras.layers.Dense(V, kernel_initializer="identity")(Inner()(inputs))
    model = keras.Model(inputs, Inner()(hidden))
    model.compile("sgd", lambda y, predicted: 0.0 * ops.mean(predicted), jit_compile=JIT)
    reported = model.fit(OUTPUT, np.zeros(B), batch_size=B, verbose=0).history["loss"]
    expected = 2 * 5 * mean_cosine(OUTPUT, np.ones((B, T)))
    np.testing.assert_allclose(reported, expected, rtol=1e-4)
    assert model.evaluate(OUTPUT, np.zeros(B), verbose=0) == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("term", ["subspace", "positions", "outputs"])
def test_twenty_steps_of_descent_make_heads_less_alike(term: str) -> None:
    model = attention_model(Disagreement(**{term: 1.0}), dropout=0.0)
    compile_without_loss(model, learning_rate=1.0)

    def similarity() -> float:
        found = model([VALUE[:, :, 0], KEY_MASK])
        output, weights, value = (ops.convert_to_numpy(x) for x in found)
        match term:
            case "subspace":
                return mean_cosine(value, KEY_MASK)
            case "positions":
                return mean_overlap(weights, KEY_MASK)
        return mean_cosine(output, KEY_MASK)

    before = similarity()
    reported = fit(model, 20)
    assert reported[0] == pytest.approx(before, rel=1e-4)
    assert similarity() < before - 0.02


def test_zero_vectors_get_no_gradient() -> None:
    output = OUTPUT.copy()
    output[0] = 0
    layer = Disagreement(outputs=1.0)

    def loss(x: Any) -> Any:
        layer(VALUE, None, x, training=True)
        return layer.losses[0]

    slopes = gradient(loss, output)
    np.testing.assert_array_equal(slopes[0], 0)
    assert np.abs(slopes[1:]).max() > 0


def test_an_exported_model_does_not_compute_it(tmp_path: Path) -> None:
    tf = tensorflow()
    operations = []
    for number, penalty in enumerate((Disagreement(), Disagreement(1.0, 1.0, 1.0))):
        folder = tmp_path / str(number)
        attention_model(penalty).export(folder, verbose=False)
        served = tf.saved_model.load(folder).signatures["serving_default"]
        graph = served.graph.as_graph_def()
        nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
        operations.append(sorted(node.op for node in nodes))
    assert operations[0] == operations[1]


def test_positions_need_weights() -> None:
    with pytest.raises(ValueError, match="use the mechanism Dense"):
        Disagreement(positions=1.0)(VALUE, None, OUTPUT)
    assert losses(Disagreement(outputs=1.0), VALUE, None, OUTPUT)


@pytest.mark.parametrize("name", ["subspace", "positions", "outputs"])
def test_a_negative_factor_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}` must be a finite number of at least 0"):
        Disagreement(**{name: -1.0})
