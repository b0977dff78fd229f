"""Attention of one head: separate keys, returned weights, Keras' layer as the oracle."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Attention, MultiHeadAttention
from recsys_attn.attention.mechanisms import Mechanism

B, T, S, E, V = 2, 3, 5, 7, 11
RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = (
    RNG.normal(size=shape).astype("float32") for shape in ((B, T, E), (B, S, E), (B, S, V))
)


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


def symbol(*shape: int | None, dtype: str = "bool") -> keras.KerasTensor:
    """The batch included."""
    return keras.Input(batch_shape=shape, dtype=dtype)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"key_mask": symbol(None, T)}, ValueError, r"`key_mask` .* \(B, S\) with S=5\."),
        ({"value_mask": symbol(None, T)}, ValueError, r"`value_mask` .* \(B, S\) with S=5\."),
        ({"query_mask": symbol(None, S)}, ValueError, r"`query_mask` .* \(B, T\) with T=3\."),
        ({"attention_mask": symbol(None, S, T)}, ValueError, "`attention_mask` .* T=3, S=5"),
        ({"attention_mask": symbol(T, S)}, ValueError, "`attention_mask` must have shape"),
        ({"key_mask": symbol(None, S, dtype="float32")}, TypeError, "`key_mask` must be boolean"),
        ({"attention_bias": symbol(None, T, S)}, TypeError, "`attention_bias` is added"),
        (
            {"key_positions": symbol(None, T, dtype="int32")},
            ValueError,
            r"`key_positions` must have shape \(S,\) or \(B, S\) .* with N=\d, S=5\.",
        ),
        (
            {"query_positions": symbol(None, T, dtype="float32")},
            TypeError,
            "`query_positions` must be integers",
        ),
        ({"key": symbol(None, T, E, dtype="float32")}, ValueError, "`key` and `value` must have"),
        (
            {"mechanism": "linear_transformer", "attention_mask": symbol(None, T, S)},
            TypeError,
            "Linear cannot honour `attention_mask`",
        ),
    ],
)
@pytest.mark.parametrize("make", [Attention, partial(MultiHeadAttention, 2, 3)])
def test_symbolic_call_checks_shapes_and_dtypes(
    make: Any, given: dict, error: type[Exception], message: str
) -> None:
    layer = make(given.get("mechanism", "transformer"))
    query, value = keras.Input((T, E)), keras.Input((S, E))
    assert layer(query, value, key_mask=symbol(None, S)).shape == (None, T, E)
    with pytest.raises(error, match=message):
        layer(query, value, **{name: x for name, x in given.items() if name != "mechanism"})


@pytest.mark.parametrize("mechanism", ["transformer", "linear_transformer", "memory_compressed"])
@pytest.mark.parametrize("make", [Attention, partial(MultiHeadAttention, 2, 3)])
def test_batch_sizes_that_differ_are_refused(make: Any, mechanism: str) -> None:
    sentence = "`query`, `key` and `value` must have the same batch, or a batch of 1.*of 7 and 2"
    more = np.zeros((7, T, E), "float32")
    symbols = [symbol(*x.shape, dtype="float32") for x in (more, KEY)]
    for inputs in ((more, KEY), symbols):
        with pytest.raises(ValueError, match=sentence):
            make(mechanism)(*inputs)
    layer = make(mechanism)
    layer(QUERY, KEY)
    for inputs in ((more, KEY), symbols):
        with pytest.raises(ValueError, match=sentence):
            layer(*inputs)
    with pytest.raises(ValueError, match="must have the same batch, or a batch of 1"):
        layer(QUERY, KEY, np.zeros((7, S, E), "float32"))


def test_of_two_batches_the_known_one_counts() -> None:
    known, unknown = symbol(B, T, E, dtype="float32"), keras.Input((S, E))
    assert Attention()(known, unknown).shape == (B, T, E)
    assert Attention()(unknown, known).shape == (B, S, E)
    with pytest.raises(ValueError, match=r"`key_mask` must have shape .* with B=2, S=5\."):
        Attention()(known, unknown, key_mask=symbol(7, S))
    # Of keys and values too.
    keys = keras.Input((None, E))
    assert Attention()(known, unknown, keys).shape == (B, T, E)


def test_masks_may_be_positional_in_a_symbolic_call() -> None:
    query, value = keras.Input((T, E)), keras.Input((S, E))
    query_mask, key_mask = symbol(None, T), symbol(None, S)
    for layer in (Attention(), MultiHeadAttention(2, 3)):
        output = layer(query, value, value, query_mask, key_mask=key_mask)
        assert output.shape == (None, T, E)


def test_only_masks_that_are_given_reach_the_mechanism() -> None:
    class NoMasks(Mechanism):
        def call(self, query: Any, key: Any, value: Any, masks: Any) -> Any:
            return query, None

    np.testing.assert_array_equal(Attention(NoMasks())(QUERY, KEY), QUERY)
    with pytest.raises(TypeError, match="NoMasks cannot honour `key_mask`"):
        Attention(NoMasks())(QUERY, KEY, key_mask=np.ones((B, S), bool))
    with pytest.raises(ValueError, match=r"NoMasks makes none\. Use the mechanism Dense"):
        Attention(NoMasks())(QUERY, KEY, return_weights=True)


def test_a_mechanism_of_ones_own_is_a_call() -> None:
    class Mean(Mechanism):
        honours = ("key_mask",)

        def call(self, query: Any, key: Any, value: Any, masks: Any) -> Any:
            weights = keras.ops.cast(masks.key, value.dtype)[..., None, None]
            count = keras.ops.maximum(keras.ops.sum(weights, 1, True), 1)
            mean = keras.ops.sum(value * weights, 1, True) / count
            return keras.ops.broadcast_to(mean, keras.ops.shape(query)), None

    mask = np.arange(S) < np.array([[2], [S]])
    output = Attention(Mean())(QUERY, KEY, key_mask=mask)
    expected = np.stack([KEY[0, :2].mean(0), KEY[1].mean(0)])[:, None].repeat(T, axis=1)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)


def test_a_subclass_may_take_more_and_hand_on_the_rest() -> None:
    class Residual(Attention):
        def call(
            self, query: Any, value: Any, key: Any = None, training: Any = None, **others: Any
        ) -> Any:
            return query + super().call(query, value, key, **others)

    symbols = keras.Input((T, E)), keras.Input((S, E))
    mask = symbol(None, S)
    output = Residual()(*symbols, training=True, key_mask=mask)
    assert output.shape == (None, T, E)
    with pytest.raises(ValueError, match=r"`key_mask` must have shape \(B, S\) with S=5\."):
        Residual()(*symbols, key_mask=symbol(None, T))


def test_masks_from_keras_count() -> None:
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
            r"`value_mask` must have shape \(B, S\) with B=2, S=5\. Received: .*\(2, 3\)",
        ),
        (
            {"key_mask": np.ones((B, S), bool), "value_mask": np.ones((B, S), "float32")},
            TypeError,
            "`value_mask` must be boolean.*dtype=float32",
        ),
        (
            {"key_mask": np.ones(S, bool), "value_mask": np.ones((B, S), bool)},
            ValueError,
            r"`key_mask` must have shape \(B, S\) with B=2, S=5\. Received: .*\(5,\)",
        ),
        (
            {"value_mask": np.ones((B, T), bool)},
            ValueError,
            r"`value_mask` must have shape \(B, S\) with B=2, S=5\. Received: .*\(2, 3\)",
        ),
    ],
)
def test_key_and_value_masks_are_checked(masks: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Attention()(QUERY, KEY, **masks)


def test_inputs_must_have_three_axes() -> None:
    with pytest.raises(ValueError, match="`query` must have 3 axes"):
        Attention()(QUERY[:, 0], KEY)
