"""Layers of Keras against ours. Where a query may attend nothing, see `test_nothing_to_attend`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Attention, Dense, MultiHeadAttention, patterns
from recsys_attn.attention.gates import OutputGate
from tests.oracles.support import agree, assign, normal

B, T, S, E, D, N, H = 2, 3, 5, 7, 11, 6, 13
QUERY, VALUE, KEY = normal(0, B, T, E), normal(1, B, S, D), normal(2, B, S, D)
EVENTS = normal(3, B, S, E)
RNG = np.random.default_rng(4)
VALUE_MASK = np.array([[True, True, False, True, False], [False, True, True, True, True]])
PAIRS, PAIRS_OF_HEADS = RNG.random((B, T, S)) < 0.5, RNG.random((B, N, T, S)) < 0.5
PAIRS[..., 1] = PAIRS_OF_HEADS[..., 1] = True


def in_ours(theirs: Any, *inputs: np.ndarray, groups: int = 1, **config: Any) -> MultiHeadAttention:
    """Our layer with the weights of theirs, of which keys and values serve `groups` heads each."""
    rng = np.random.default_rng(5)
    theirs.build(*(x.shape for x in inputs))
    weights = [rng.normal(scale=0.4, size=w.shape) for w in theirs.weights]
    theirs.set_weights(weights)
    query, query_bias, key, key_bias, value, value_bias, output, output_bias = weights[:8]
    key, key_bias, value, value_bias = (
        np.repeat(x, groups, axis=-2) for x in (key, key_bias, value, value_bias)
    )
    layer = MultiHeadAttention(N, H, **config)
    layer.build(*(x.shape for x in inputs))
    assign(
        layer,
        query_kernel=query.reshape(-1, N * H),
        query_bias=query_bias.reshape(N * H),
        key_kernel=key.reshape(-1, N * H),
        key_bias=key_bias.reshape(N * H),
        value_kernel=value.reshape(-1, N * H),
        value_bias=value_bias.reshape(N * H),
        output_kernel=output.reshape(N * H, E),
        output_bias=output_bias,
    )
    return layer


@pytest.mark.parametrize(
    "masks",
    [
        {},
        {"value_mask": VALUE_MASK},
        {"attention_mask": PAIRS},
        {"attention_mask": PAIRS_OF_HEADS},
        {"attention_mask": PAIRS, "value_mask": VALUE_MASK | PAIRS.any(1)},
    ],
    ids=["no mask", "of values", "of pairs", "of pairs a head", "of pairs and values"],
)
def test_multi_head_attention(masks: dict[str, np.ndarray]) -> None:
    """Keras takes a mask a head too, though its documentation names (B, T, S) alone."""
    theirs = keras.layers.MultiHeadAttention(N, H, output_shape=E)
    ours = in_ours(theirs, QUERY, VALUE, KEY)
    expected, weights = theirs(QUERY, VALUE, KEY, return_attention_scores=True, **masks)
    actual, our_weights = ours(QUERY, VALUE, KEY, return_weights=True, **masks)
    agree("Keras MultiHeadAttention", actual, expected)
    agree("Keras MultiHeadAttention, weights", our_weights, weights)
    agree("Keras MultiHeadAttention, fused", actual, theirs(QUERY, VALUE, KEY, **masks))


@pytest.mark.parametrize("value_mask", [None, VALUE_MASK | (np.arange(S) == 0)], ids=["", "mask"])
def test_causal_multi_head_attention(value_mask: Any) -> None:
    theirs = keras.layers.MultiHeadAttention(N, H, output_shape=E)
    ours = in_ours(theirs, EVENTS, EVENTS, mechanism=Dense(pattern="causal"))
    expected = theirs(EVENTS, EVENTS, value_mask=value_mask, use_causal_mask=True)
    agree("Keras MultiHeadAttention, causal", ours(EVENTS, value_mask=value_mask), expected)


def test_causal_multi_head_attention_over_more_keys_than_queries() -> None:
    """Keras counts queries from the first key; here the last query stands at the last key."""
    theirs = keras.layers.MultiHeadAttention(N, H, output_shape=E)
    ours = in_ours(theirs, QUERY, VALUE, KEY, mechanism=Dense(pattern="causal"))
    expected = theirs(QUERY, VALUE, KEY, use_causal_mask=True)
    actual = ours(QUERY, VALUE, KEY, query_positions=np.arange(T))
    agree("Keras MultiHeadAttention, causal with T < S", actual, expected)


@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
def test_sliding_window(causal: bool) -> None:
    """Keras counts the query itself: its window of 3 is `Local(2)`."""
    theirs = keras.layers.MultiHeadAttention(N, H, output_shape=E, sliding_window=3)
    window = patterns.Local(2, 0 if causal else 2)
    ours = in_ours(theirs, EVENTS, EVENTS, mechanism=Dense(pattern=window))
    expected = theirs(EVENTS, EVENTS, use_causal_mask=causal)
    agree("Keras MultiHeadAttention, sliding window", ours(EVENTS), expected)


def test_gate() -> None:
    """The gate of Keras has a bias, zero at first; that of the paper and ours have none."""
    theirs = keras.layers.MultiHeadAttention(N, H, output_shape=E, use_gate=True)
    plain = keras.layers.MultiHeadAttention(N, H, output_shape=E)
    ours = in_ours(plain, QUERY, VALUE, gate=OutputGate())
    theirs.build(QUERY.shape, VALUE.shape)
    gate = normal(6, E, N, H)
    query_and_key = plain.get_weights()[:4]
    theirs.set_weights([*query_and_key, gate, np.zeros((N, H)), *plain.get_weights()[4:]])
    assign(ours.heads.gate, kernel=gate.transpose(1, 0, 2))
    agree("Keras MultiHeadAttention, gate", ours(QUERY, VALUE), theirs(QUERY, VALUE))


def test_nothing_to_attend() -> None:
    """A query that may attend nothing: zeros here and in Keras where it returns the weights; the
    mean of the values in Keras otherwise, and in its Attention and AdditiveAttention."""
    theirs = keras.layers.MultiHeadAttention(N, H, output_shape=E)
    ours = in_ours(theirs, QUERY, VALUE)
    mask = PAIRS & (np.arange(T) != 1)[:, None]
    expected, _ = theirs(QUERY, VALUE, attention_mask=mask, return_attention_scores=True)
    agree("Keras MultiHeadAttention, empty rows", ours(QUERY, VALUE, attention_mask=mask), expected)


@pytest.mark.parametrize("key_value_heads", [N, 3, 1])
def test_grouped_query_attention(key_value_heads: int) -> None:
    """Ours has a key for each query head: the kernels of theirs are repeated."""
    theirs = keras.layers.GroupQueryAttention(H, N, key_value_heads)
    ours = in_ours(theirs, QUERY, VALUE, KEY, groups=N // key_value_heads)
    actual = ours(QUERY, VALUE, KEY, attention_mask=PAIRS)
    expected = theirs(QUERY, VALUE, KEY, attention_mask=PAIRS)
    agree(f"Keras GroupQueryAttention, {key_value_heads} of {N}", actual, expected)


def test_additive_attention() -> None:
    """Keras has v alone: W_q and W_k are the identity, where the paper learns them."""
    theirs = keras.layers.AdditiveAttention()
    query = normal(7, B, T, D)
    theirs.build([query.shape, VALUE.shape, KEY.shape])
    vector = normal(8, D)
    theirs.set_weights([vector])
    ours = Attention("additive")
    ours.build(query.shape, VALUE.shape, KEY.shape)
    identity = np.eye(D)[None]
    score = ours.mechanism.score
    assign(score, query_kernel=identity, key_kernel=identity, vector=vector.reshape(1, 1, 1, D))
    query_mask = np.array([[True, False, True], [True, True, True]])
    expected = theirs([query, VALUE, KEY], mask=[query_mask, VALUE_MASK])
    masks = {"query_mask": query_mask, "value_mask": VALUE_MASK}
    agree("Keras AdditiveAttention", ours(query, VALUE, KEY, **masks), expected)


@pytest.mark.parametrize("causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    ("mechanism", "scale"), [("dot", None), ("scaled_dot", D**-0.5)], ids=["dot", "scaled dot"]
)
def test_attention(mechanism: str, scale: float | None, causal: bool) -> None:
    """`use_scale` of Keras is a learned number, one at first, and not 1 / sqrt(H)."""
    theirs = keras.layers.Attention(use_scale=scale is not None)
    query = normal(7, B, S, D)
    theirs.build([query.shape, VALUE.shape, KEY.shape])
    if scale is not None:
        theirs.set_weights([np.array(scale)])
    ours = Attention(Dense(mechanism, pattern="causal" if causal else None))
    expected = theirs([query, VALUE, KEY], use_causal_mask=causal)
    agree("Keras Attention", ours(query, VALUE, KEY), expected)
