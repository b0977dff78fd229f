"""What is compiled in a graph is what is computed without, and no exported model asks for it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention.weightings import Softmax
from recsys_attn.blocks import Dice
from tests.support.arrays import assert_close

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="the other backends compile whole programs"
)

X = np.random.default_rng(0).normal(1.0, 2.0, (3, 5, 7)).astype("float32")
REAL = np.random.default_rng(1).random(X.shape[:-1]) < 0.6
LOGITS = np.random.default_rng(2).normal(0.0, 5.0, (3, 2, 5, 7)).astype("float32")
# A query that may attend nothing is among them, and one that may attend a single key.
ALLOWED = np.random.default_rng(3).random((3, 1, 5, 7)) < 0.5
ALLOWED[0, 0, 0], ALLOWED[0, 0, 1] = False, np.arange(7) == 3


def stepped(dtype: str, where: np.ndarray | None, in_graph: bool) -> list[np.ndarray]:
    """Output, gradients and moving averages of a step of Dice."""
    layer = Dice(dtype=dtype)
    layer.build(X.shape)
    layer.alpha.assign(np.linspace(-0.5, 1.0, X.shape[-1]))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x, where=where, training=True)
            total = tf.reduce_sum(tf.sin(tf.cast(output, "float32")))
        return [output, *tape.gradient(total, [x, layer.alpha.value])]

    if in_graph:
        step = tf.function(step, input_signature=[tf.TensorSpec((None, 5, 7), layer.compute_dtype)])
    found = step(tf.cast(X, layer.compute_dtype))
    tensors = [*found, layer.moving_mean, layer.moving_variance]
    return [np.asarray(keras.ops.cast(tensor, "float32")) for tensor in tensors]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", [None, REAL], ids=["all", "some"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_graph_takes_the_step_of_eager_operations(dtype: str, where: np.ndarray | None) -> None:
    one, other = stepped(dtype, where, in_graph=True), stepped(dtype, where, in_graph=False)
    precision = 1e-5 if dtype == "float32" else 2**-7
    for compiled, plain in zip(one, other, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=precision, atol=precision)


def softened(dtype: str, allowed: np.ndarray | None, training: bool) -> list[np.ndarray]:
    """Weights in a graph, their gradient, and the gradient of that one's squares."""
    layer = Softmax(dtype=dtype)

    def step(logits: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(logits)
            with tf.GradientTape() as tape:
                tape.watch(logits)
                weights = layer(logits, allowed, training=training)
                total = tf.reduce_sum(tf.sin(3 * tf.cast(weights, "float32")))
            gradient = tape.gradient(total, logits)
            squares = tf.reduce_sum(tf.square(tf.cast(gradient, "float32")))
        return weights, gradient, outer.gradient(squares, logits)

    spec = tf.TensorSpec((None, *LOGITS.shape[1:]), layer.compute_dtype)
    found = tf.function(step, input_signature=[spec])(tf.cast(LOGITS, layer.compute_dtype))
    return [np.asarray(keras.ops.cast(tensor, "float32")) for tensor in found]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("allowed", [None, ALLOWED], ids=["all", "some"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_the_softmax_of_training_is_that_of_scoring(dtype: str, allowed: np.ndarray | None) -> None:
    one, other = softened(dtype, allowed, training=True), softened(dtype, allowed, training=False)
    precision = 1e-5 if dtype == "float32" else 2**-6
    for compiled, plain in zip(one, other, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=precision, atol=precision)


def test_a_softmax_in_a_loop_has_its_gradient() -> None:
    """The parts of a batch are computed in one, and their number is not known beforehand."""
    layer = Softmax()

    @tf.function
    def total(logits: Any, training: bool) -> Any:
        def body(sum_: Any, part: Any) -> Any:
            return sum_ + tf.reduce_sum(tf.sin(3 * layer(part, training=training)))

        with tf.GradientTape() as tape:
            tape.watch(logits)
            found = tf.foldl(body, logits, tf.zeros(()))
        return found, tape.gradient(found, logits)

    logits = tf.constant(LOGITS)
    for compiled, plain in zip(total(logits, True), total(logits, False), strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("made", [Dice, Softmax])
def test_a_branch_has_its_gradient(made: type[keras.layers.Layer]) -> None:
    """Though XLA computes with tensors that only the branch knows."""
    layer = made()
    layer.build(X.shape)

    def slope(x: Any) -> Any:
        def branch() -> Any:
            return tf.sin(3 * layer(2 * x, training=True))

        with tf.GradientTape() as tape:
            tape.watch(x)
            output = tf.cond(tf.reduce_all(x < 1e9), branch, lambda: x)
        return tape.gradient(output, x)

    x = tf.constant(X)
    compiled = tf.function(slope, autograph=False)(x)
    assert_close(compiled, slope(x))


def test_dice_trains_in_a_graph_that_knows_no_size() -> None:
    """Not even that of the channels, which its weights know."""
    layers = [Dice(), Dice()]
    for layer in layers:
        layer.build(X.shape)
    spec = tf.TensorSpec((None,) * X.ndim)
    step = tf.function(lambda x: layers[0](x, training=True), input_signature=[spec])
    np.testing.assert_allclose(step(X), layers[1](X, training=True), rtol=1e-5, atol=1e-5)


def must_compile(layer: keras.layers.Layer, training: bool) -> bool:
    """Whether a graph of it has a part that only XLA runs."""
    layer.build(X.shape)
    function = tf.function(lambda x: layer(x, training=training))
    graph = function.get_concrete_function(tf.TensorSpec(X.shape)).graph
    return any("_XlaMustCompile" in op.node_def.attr for op in graph.get_operations())


@pytest.mark.parametrize("layer", [Dice, Softmax])
def test_only_training_is_compiled(layer: type[keras.layers.Layer]) -> None:
    """So that an exported model runs where there is no XLA."""
    assert must_compile(layer(), training=True) or tf.config.list_physical_devices("GPU")
    assert not must_compile(layer(), training=False)
