"""Masks, biases and positions of pairs in fast mechanisms, against `Dense`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention, patterns
from recsys_attn.attention.mechanisms import Compressed, Dense, Lookup, Routed
from recsys_attn.attention.routers import Blocks, KMeans, Lsh, Sinkhorn
from recsys_attn.attention.scores import Dot, TimeBuckets
from tests.support.arrays import assert_close
from tests.support.heads import KEY, KEY_MASK, QUERY, SELF, VALUE, B, N, S, T, output_of
from tests.support.layer_case import tensorflow
from tests.support.refusals import refusals

RNG = np.random.default_rng(0)
GLOBAL = patterns.Local(4) | patterns.Global((0,))
RANDOM = patterns.Block(4, 1) | patterns.EdgeBlocks(4) | patterns.RandomBlocks(4, 2, seed=3)
ROUTERS: dict[str, Any] = {
    "band": (lambda: Blocks(4), patterns.Block(4, 1), None),
    "global tokens": (lambda: Blocks(4, first=1), GLOBAL, GLOBAL),
    "random blocks": (lambda: Blocks(4, first=1, last=1, random=2, seed=3), RANDOM, None),
}
SHAPES = {
    "pairs": lambda q: (B, q, S),
    "heads": lambda q: (B, N, q, S),
    "one example": lambda q: (1, N, q, S),
    "all queries": lambda q: (B, 1, 1, S),
}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@pytest.mark.sampled(6)
@each_shape
@pytest.mark.parametrize("name", ROUTERS)
def test_pairs_count_as_in_dense(name: str, shape: Any) -> None:
    make, pattern, own = ROUTERS[name]
    given = {
        "attention_mask": RNG.random(shape(S)) < 0.5,
        "attention_bias": 2 * RNG.normal(size=shape(S)).astype("float32"),
    }
    for some in ([*given], ["attention_mask"], ["attention_bias"]):
        arguments = {"key_mask": KEY_MASK, **{each: given[each] for each in some}}
        if name == "random blocks":
            del arguments["key_mask"]
        routed = output_of(Routed(make(), pattern=own), SELF, KEY, VALUE, **arguments)
        assert_close(routed, output_of(Dense(pattern=pattern), SELF, KEY, VALUE, **arguments))


@each_shape
def test_a_query_from_elsewhere_has_its_pairs(shape: Any) -> None:
    given = {
        "attention_mask": RNG.random(shape(T)) < 0.7,
        "attention_bias": RNG.normal(size=shape(T)).astype("float32"),
        "query_positions": np.array([3, 17, S]),
        "key_mask": KEY_MASK,
    }
    lookup = output_of(Lookup(Blocks(4), pattern=patterns.Local(4)), **given)
    assert_close(lookup, output_of(Dense(pattern=patterns.Local(4)), **given))


LIMITS = {
    "lsh": (lambda: Lsh(S, buckets=1, rounds=2), "shared_dot"),
    "k-means": (lambda: KMeans(1, S), "scaled_dot"),
}


@pytest.mark.sampled(3)
@each_shape
@pytest.mark.parametrize("name", LIMITS)
def test_a_bias_reaches_groups_by_content(name: str, shape: Any) -> None:
    make, score = LIMITS[name]
    for mechanism, query in ((Routed, SELF), (Lookup, QUERY)):
        bias = RNG.normal(size=shape(query.shape[1])).astype("float32")
        given = {"attention_bias": bias, "key_mask": KEY_MASK}
        if mechanism is Routed:
            given["query_mask"] = KEY_MASK
        fast = output_of(mechanism(make(), score), query, KEY, VALUE, **given)
        if mechanism is Lookup:
            last = [[np.flatnonzero(row)[-1] + 1] * T for row in KEY_MASK]
            given["query_positions"] = np.array(last)
        assert_close(fast, output_of(Dense(score), query, KEY, VALUE, **given))


def test_a_bias_of_minus_infinity_gives_no_nan() -> None:
    bias = np.full((B, S, S), -np.inf, "float32")
    bias[:, :, 3] = 0
    bias[:, 20:] = -np.inf
    found = output_of(Routed(Blocks(4, 6, 6)), SELF, KEY, VALUE, attention_bias=bias)
    assert_close(found, output_of(Dense(), SELF, KEY, VALUE, attention_bias=bias))


TIMES = np.cumsum(RNG.integers(0, 5000, size=(B, S)), axis=1)


@pytest.mark.parametrize("router", [lambda: Blocks(4, 6, 6), lambda: KMeans(1, S)])
def test_positions_of_a_call_reach_the_score(router: Any) -> None:
    def score() -> Any:
        return Dot() + TimeBuckets(8)

    given = {"query_positions": TIMES, "key_positions": TIMES}
    dense, routed = Dense(score()), Routed(router(), score())
    output_of(dense, SELF, KEY, VALUE)
    output_of(routed, SELF, KEY, VALUE)
    for old, new in zip(dense.score.weights, routed.score.weights, strict=True):
        old.assign(RNG.normal(size=old.shape))
        new.assign(old)
    expected = output_of(dense, SELF, KEY, VALUE, **given)
    assert_close(output_of(routed, SELF, KEY, VALUE, **given), expected)
    layer = MultiHeadAttention(2, 4, Routed(Blocks(4), "alibi"))
    events = SELF[:, :, 0]
    early, late = layer(events, query_positions=TIMES), layer(events, query_positions=2 * TIMES)
    assert np.abs(np.asarray(early) - np.asarray(late)).max() > 1e-3


def test_a_graph_of_unknown_sizes_takes_pairs() -> None:
    tf = tensorflow()
    layer = Routed(Blocks(4, first=1))
    bias = RNG.normal(size=(B, N, S, S)).astype("float32")
    expected = output_of(layer, SELF, KEY, VALUE, attention_bias=bias)
    shapes = [(None, None, N, x.shape[-1]) for x in (SELF, KEY, VALUE)] + [(None, N, None, None)]

    @tf.function(input_signature=[*map(tf.TensorSpec, shapes)])
    def graph(query: Any, key: Any, value: Any, bias: Any) -> Any:
        return layer(query, key, value, attention_bias=bias)[0]

    assert_close(graph(SELF, KEY, VALUE, bias), expected)
    for some in (0, 1, 5):
        inputs = [x[:, :some] for x in (SELF, KEY, VALUE)]
        assert graph(*inputs, bias[:, :, :some, :some]).shape == (B, some, N, VALUE.shape[-1])


INPUTS = (SELF, KEY, VALUE)
PAIRS = np.ones((B, S, S), bool)
BIAS = np.zeros((B, S, S), "float32")
EVENTS = SELF[:, :, 0]

test_what_cannot_be_honoured_is_refused = refusals(
    (
        lambda: Routed(Lsh(4))(*INPUTS, attention_mask=PAIRS),
        "the groups of Lsh depend on every key",
    ),
    (
        lambda: Routed(Sinkhorn(4))(*INPUTS, attention_bias=BIAS),
        "Sinkhorn mixes keys of several positions",
    ),
    (
        lambda: Routed(Blocks(4), pattern="causal")(*INPUTS, query_positions=TIMES),
        "its pattern is one of places",
    ),
    (
        lambda: Compressed("pool")(*INPUTS, attention_mask=PAIRS),
        "it does not look at every pair",
    ),
    error=TypeError,
)
