"""What is compiled in a graph is what is computed without, and no exported model asks for it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.blocks import Dice

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="the other backends compile whole programs"
)

X = np.random.default_rng(0).normal(1.0, 2.0, (3, 5, 7)).astype("float32")
REAL = np.random.default_rng(1).random(X.shape[:-1]) < 0.6


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


@pytest.mark.parametrize("where", [None, REAL], ids=["all", "some"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_graph_takes_the_step_of_eager_operations(dtype: str, where: np.ndarray | None) -> None:
    one, other = stepped(dtype, where, in_graph=True), stepped(dtype, where, in_graph=False)
    precision = 1e-5 if dtype == "float32" else 2**-7
    for compiled, plain in zip(one, other, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=precision, atol=precision)


def must_compile(training: bool) -> bool:
    """Whether a graph of Dice has a part that only XLA runs."""
    layer = Dice()
    layer.build(X.shape)
    function = tf.function(lambda x: layer(x, training=training))
    graph = function.get_concrete_function(tf.TensorSpec(X.shape)).graph
    return any("_XlaMustCompile" in op.node_def.attr for op in graph.get_operations())


def test_only_training_is_compiled() -> None:
    """So that an exported model runs where there is no XLA."""
    assert must_compile(training=True) or tf.config.list_physical_devices("GPU")
    assert not must_compile(training=False)
