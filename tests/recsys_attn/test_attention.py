"""Attention of one head: separate keys, returned weights, Keras' layer as the oracle."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from recsys_attn.attention import Attention, Dense

B, T, S, E, V = 2, 3, 5, 7, 11
RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = (
    RNG.normal(size=shape).astype("float32") for shape in ((B, T, E), (B, S, E), (B, S, V))
)


@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
def test_attention_equals_keras_attention(masked: bool) -> None:
    mask = RNG.random((B, S)) < 0.7
    mask[:, 0] = True
    expected, weights = keras.layers.Attention()(
        [QUERY, VALUE, KEY],
        mask=[None, mask] if masked else None,
        return_attention_scores=True,
    )
    output, our_weights = Attention(Dense("dot"))(
        QUERY, VALUE, KEY, key_mask=mask if masked else None, return_weights=True
    )
    np.testing.assert_allclose(our_weights, weights, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)


def test_values_are_the_keys_where_none_are_given() -> None:
    layer = Attention()
    np.testing.assert_allclose(layer(QUERY, KEY), layer(QUERY, KEY, KEY))


def test_symbolic_weights_have_the_shape_of_the_pairs() -> None:
    query, value = keras.Input((None, E)), keras.Input((None, E))
    output, weights = Attention()(query, value, return_weights=True)
    assert output.shape == (None, None, E)
    assert weights.shape == (None, None, None)
    output, weights = Attention()(keras.Input((T, E)), keras.Input((S, E)), return_weights=True)
    assert weights.shape == (None, T, S)


def test_only_masks_that_are_given_reach_the_mechanism() -> None:
    class NoMasks(keras.layers.Layer):
        def build(self, query_shape, key_shape, value_shape):
            self.built = True

        def call(self, query, key, value):
            return query, None

    np.testing.assert_array_equal(Attention(NoMasks())(QUERY, KEY), QUERY)
    with pytest.raises(TypeError, match="NoMasks cannot honour `key_mask`"):
        Attention(NoMasks())(QUERY, KEY, key_mask=np.ones((B, S), bool))
    with pytest.raises(ValueError, match=r"NoMasks makes none\. Use the mechanism Dense"):
        Attention(NoMasks())(QUERY, KEY, return_weights=True)


def test_masks_that_keras_finds_on_the_inputs_count() -> None:
    embedding = keras.layers.Embedding(11, E, mask_zero=True)
    query, value = np.array([[3, 4, 0]]), np.array([[5, 6, 7, 0, 0]])
    found = Attention()(embedding(query), embedding(value))
    given = Attention()(
        np.asarray(embedding(query)),
        np.asarray(embedding(value)),
        query_mask=query != 0,
        value_mask=value != 0,
    )
    np.testing.assert_allclose(found, given, rtol=1e-5, atol=1e-7)


def test_masks_of_keys_and_of_values_meet_by_and() -> None:
    key_mask, value_mask = RNG.random((2, B, S)) < 0.7
    output = Attention()(QUERY, KEY, key_mask=key_mask, value_mask=value_mask)
    expected = Attention()(QUERY, KEY, key_mask=key_mask & value_mask)
    np.testing.assert_allclose(output, expected)


@pytest.mark.parametrize(
    ("masks", "error", "message"),
    [
        (
            {"key_mask": np.ones((B, S), bool), "value_mask": np.ones((B, T), bool)},
            ValueError,
            r"same shape \(B, S\).*key_mask.shape=\(2, 5\), value_mask.shape=\(2, 3\)",
        ),
        (
            {"key_mask": np.ones((B, S), bool), "value_mask": np.ones((B, S), "float32")},
            TypeError,
            "`value_mask` must be boolean.*dtype=float32",
        ),
        (
            {"key_mask": np.ones(S, bool), "value_mask": np.ones((B, S), bool)},
            ValueError,
            r"`key_mask` must have shape \(B, S\)\. Received: key_mask.shape=\(5,\)",
        ),
    ],
)
def test_masks_of_keys_and_of_values_are_checked_before_they_meet(
    masks: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Attention()(QUERY, KEY, **masks)


def test_inputs_must_have_three_axes() -> None:
    with pytest.raises(ValueError, match="`query` must have 3 axes"):
        Attention()(QUERY[:, 0], KEY)


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`key_mask` must have shape \(B, S\) with .*S=5"):
        Attention()(QUERY, KEY, key_mask=np.ones((B, T), bool))
