"""Gated feed-forward networks and squeeze-and-excitation follow their equations."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest

from recsys_attn.blocks import FeedForward, SqueezeExcitation
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
