"""Gated feed-forward networks and squeeze-and-excitation follow their equations."""

from __future__ import annotations

from math import erf
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.blocks import FeedForward, SqueezeExcitation, TransformerBlock
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise
from tests.support.references.blocks import sigmoid

RNG = np.random.default_rng(3)
X = RNG.normal(size=(3, 7, 5)).astype("float32")
PRESENT = RNG.random((3, 7)) < 0.6
PRESENT[0] = False

GATES = {
    "glu": sigmoid,
    "reglu": lambda x: np.maximum(x, 0),
    "geglu": lambda x: x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2,
    "swiglu": lambda x: x * sigmoid(x),
}


@pytest.mark.parametrize("activation", GATES)
def test_a_gated_unit_follows_its_equation(activation: str) -> None:
    layer = FeedForward(4, activation)
    layer(X)
    randomise(layer)
    (w, b), (v, c), (out, bias) = [
        part.get_weights() for part in (layer.hidden.dense[0], layer.gate, layer.output_layer)
    ]
    x = X.astype("float64")
    hidden = GATES[activation](x @ w + b) * (x @ v + c)
    np.testing.assert_allclose(layer(X), hidden @ out + bias, rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
@pytest.mark.parametrize("chunks", [1, 4, 50])
def test_chunks_change_neither_output_nor_training(activation: str, chunks: int) -> None:
    plain, chunked = (FeedForward(6, activation, chunks=count) for count in (None, chunks))
    models = [keras.Sequential([keras.Input((None, 5)), layer]) for layer in (plain, chunked)]
    randomise(models[0])
    models[1].set_weights(models[0].get_weights())
    assert_close(chunked(X), plain(X))
    target = RNG.normal(size=X.shape).astype("float32")
    for model in models:
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.train_on_batch(X, target)
    for one, other in zip(plain.get_weights(), chunked.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_chunks_need_less_memory() -> None:
    if keras.backend.backend() != "jax":
        pytest.skip("only JAX says how much memory a program needs")
    jax = pytest.importorskip("jax")
    x = np.ones((1, 4096, 8), "float32")
    needed = []
    for chunks in (None, 16):
        layer = FeedForward(64, "gelu", chunks=chunks)
        layer(x)
        programs = [jax.jit(f) for f in (layer, jax.grad(lambda x, call=layer: call(x).sum()))]
        compiled = [program.lower(x).compile() for program in programs]
        needed.append([each.memory_analysis().temp_size_in_bytes for each in compiled])
    assert needed[1][0] < needed[0][0] / 4
    assert needed[1][1] < needed[0][1] / 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FeedForward(6, chunks=2, dropout=0.1), "`chunks` computes the network twice"),
        (lambda: FeedForward(6, "dice", chunks=2), "`chunks` computes the network twice"),
        (lambda: FeedForward(6, chunks=0), "`chunks` must be a positive integer"),
        (
            lambda: TransformerBlock(MultiHeadAttention(2, 3), 0, feed_forward_chunks=2),
            "no effect without a feed-forward network",
        ),
    ],
)
def test_chunks_that_mean_nothing_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
@pytest.mark.parametrize("over", ["fields", "channels"])
def test_squeeze_excitation_follows_its_equation(over: str, masked: bool) -> None:
    layer = SqueezeExcitation(over, reduction=2)
    layer(X)
    randomise(layer)
    squeeze, excite = layer.get_weights()
    output = np.asarray(layer(X, present=PRESENT if masked else None))
    for b, row in enumerate(X.astype("float64")):
        there = PRESENT[b] if masked else np.ones(7, bool)
        row = row * there[:, None]
        if over == "fields":
            weights = np.maximum(np.maximum(row.mean(1) @ squeeze, 0) @ excite, 0)[:, None]
        else:
            mean = row[there].mean(0) if there.any() else np.zeros(5)
            weights = sigmoid(np.maximum(mean @ squeeze, 0) @ excite)[None]
        np.testing.assert_allclose(output[b], row * weights, rtol=1e-4, atol=1e-5)


def test_wrong_squeeze_excitation_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="Did you mean 'fields'"):
        SqueezeExcitation("field")
    with pytest.raises(ValueError, match="number of fields must be known"):
        SqueezeExcitation().build((None, None, 4))
