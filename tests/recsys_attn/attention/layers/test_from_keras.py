"""Keras' own attention layers, with the same weights, compute the same here."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, from_keras
from tests.support.layer_case import randomise

B, T, S, E, D = 2, 3, 7, 13, 11
RNG = np.random.default_rng(0)
QUERY = RNG.normal(size=(B, T, E)).astype("float32")
VALUE = RNG.normal(size=(B, S, D)).astype("float32")
KEY = RNG.normal(size=(B, S, D)).astype("float32")

LAYERS = {
    "multi head": lambda: keras.layers.MultiHeadAttention(3, 5),
    "value size": lambda: keras.layers.MultiHeadAttention(3, 5, value_dim=2, dropout=0.1),
    "no bias": lambda: keras.layers.MultiHeadAttention(3, 5, use_bias=False),
    "grouped": lambda: keras.layers.GroupQueryAttention(5, 6, 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_are_those_of_keras(name: str) -> None:
    theirs = LAYERS[name]()
    theirs(QUERY, VALUE, KEY)
    randomise(theirs)
    ours = from_keras(theirs)
    np.testing.assert_allclose(
        ours(QUERY, VALUE, KEY), theirs(QUERY, VALUE, KEY), rtol=1e-5, atol=1e-5
    )
    mask = np.tril(np.ones((B, T, S), bool))
    np.testing.assert_allclose(
        ours(QUERY, VALUE, KEY, attention_mask=mask),
        theirs(QUERY, VALUE, KEY, attention_mask=mask),
        rtol=1e-5,
        atol=1e-5,
    )


def test_the_weights_go_into_another_mechanism() -> None:
    theirs = keras.layers.MultiHeadAttention(3, 5)
    expected = theirs(QUERY, QUERY, use_causal_mask=True)
    ours = from_keras(theirs, mechanism=Dense(pattern="causal"))
    np.testing.assert_allclose(ours(QUERY), expected, rtol=1e-5, atol=1e-5)


REFUSED = {
    "another layer": (lambda: keras.layers.Dense(3), TypeError, "must be a keras.layers.Multi"),
    "not built": (lambda: keras.layers.MultiHeadAttention(3, 5), ValueError, "must be built"),
    "a width": (lambda: _built(output_shape=4), ValueError, "output_shape"),
    "a gate": (lambda: _built(use_gate=True), ValueError, "use_gate"),
}


def _built(**options: Any) -> keras.layers.Layer:
    layer = keras.layers.MultiHeadAttention(3, 5, **options)
    layer(QUERY, QUERY)
    return layer


@pytest.mark.parametrize("name", REFUSED)
def test_another_computation_is_refused(name: str) -> None:
    make, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        from_keras(make())
