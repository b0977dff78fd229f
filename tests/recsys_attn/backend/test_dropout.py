"""Dropout in a graph drops the share that it says, with draws that know nothing of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.backend.dropout import Dropout, split_mix

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="the other backends draw as Keras does"
)

SHAPE = (40, 5, 100)
COUNT = 20_000


def in_graph(layer: Dropout, dtype: str = "float32") -> Callable[[np.ndarray], Any]:
    """Output and gradient of the layer's training, compiled once for all shapes."""

    @tf.function(input_signature=[tf.TensorSpec(None, dtype)])
    def call(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x, training=True)
        return output, tape.gradient(output, x)

    return call


def kept(rate: float, calls: int = 1, seed: int = 7) -> np.ndarray:
    """Whether each entry of an array of ones is kept, a row for each call."""
    call = in_graph(Dropout(rate, seed=seed))
    return np.stack([call(np.ones(SHAPE, "float32"))[0].numpy().ravel() for _ in range(calls)]) != 0


def test_numbers_are_those_of_splitmix64() -> None:
    state, step, found = 1234567, 0x9E3779B97F4A7C15, []
    for _ in range(3):
        state = (state + step) % 2**64
        found.append(int(split_mix(tf.constant(state, "uint64")).numpy()))
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_the_share_that_is_dropped_is_the_rate(rate: float) -> None:
    dropped = 1 - kept(rate, calls=20).mean()
    assert abs(dropped - rate) < 4 * np.sqrt(rate * (1 - rate) / (20 * COUNT))


def test_kept_entries_and_their_gradients_are_scaled() -> None:
    x = np.random.default_rng(0).normal(size=SHAPE).astype("float32") + 10
    output, gradient = in_graph(Dropout(0.2))(x)
    factors = np.where(output.numpy() != 0, np.float32(1 / 0.8), 0)
    np.testing.assert_allclose(output, x * factors, rtol=1e-6)
    np.testing.assert_array_equal(gradient, factors)


def test_entries_are_independent_of_their_neighbours_and_of_other_calls() -> None:
    found = kept(0.5, calls=8) - 0.5
    bound = 5 * 0.25 / np.sqrt(COUNT)  # five standard errors of a mean of products
    for distance in (1, 2, 5, 64, 100, 500, 512):
        assert abs(np.mean(found[:, distance:] * found[:, :-distance], axis=1)).max() < bound
    products = found @ found.T / COUNT
    assert abs(products - np.diag(np.diag(products))).max() < bound


def test_layers_of_other_seeds_draw_other_entries() -> None:
    one, other = kept(0.5, seed=1)[0], kept(0.5, seed=2)[0]
    assert abs(np.mean((one - 0.5) * (other - 0.5))) < 5 * 0.25 / np.sqrt(COUNT)


def test_a_seed_repeats_its_draws() -> None:
    np.testing.assert_array_equal(kept(0.3, calls=2), kept(0.3, calls=2))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_any_size_and_dtype(dtype: str) -> None:
    call = in_graph(Dropout(0.5, dtype=dtype), dtype)
    for size in [*range(20), 63, 64, 65, 1023, 1024, 1025, 99_999]:
        output, _ = call(tf.ones(size, dtype))
        assert (tuple(output.shape), output.dtype) == ((size,), dtype)
        assert set(np.unique(tf.cast(output, "float32"))) <= {0, 2}


def test_nothing_is_dropped_outside_training_or_without_a_rate() -> None:
    x = np.ones(SHAPE, "float32")
    for rate, training in ((0.5, False), (0.0, True)):
        layer = Dropout(rate)
        call = tf.function(lambda x, layer=layer, on=training: layer(x, training=on))
        np.testing.assert_array_equal(call(x), x)


def test_a_share_of_whole_rows_is_dropped_as_in_keras() -> None:
    layer = Dropout(0.5, noise_shape=(COUNT, 1))
    output = in_graph(layer)(np.ones((COUNT, 3), "float32"))[0].numpy()
    assert (output == output[:, :1]).all()
    assert 0.45 < (output == 0).mean() < 0.55
