"""Attention in groups: invariants of every router, and rejected combinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention, patterns
from recsys_attn.attention.mechanisms import Dense, Routed
from recsys_attn.attention.routers import Blocks, KMeans, Lsh, Sinkhorn
from tests.support.arrays import assert_close
from tests.support.heads import KEY, MASKS, VALUE, B, H, N, S, V
from tests.support.heads import SELF as QUERY
from tests.support.heads import self_output as output_of
from tests.support.layer_case import tensorflow
from tests.support.refusals import refusals

RNG = np.random.default_rng(0)
ROUTERS: dict[str, Callable[[], Any]] = {
    "band": lambda: Blocks(4),
    "edges and random blocks": lambda: Blocks(4, 1, 0, first=1, last=2, random=2),
    "lsh": lambda: Lsh(4, buckets=4, rounds=2),
    "k_means": lambda: KMeans(3, window=6),
    "sinkhorn": lambda: Sinkhorn(4, length=40),
}
each_router = pytest.mark.parametrize("make", ROUTERS.values(), ids=ROUTERS)


def routed(router: Any, **kwargs: Any) -> Routed:
    return Routed(router, "scaled_dot", **kwargs)


@pytest.mark.parametrize("score", ["general", "additive", "relative_buckets", "alibi"])
def test_scores_run_in_groups_as_over_the_whole(score: str) -> None:
    dense, blocks = Dense(score), Routed(Blocks(4, 5, 5), score)
    expected = output_of(dense)
    output_of(blocks)
    blocks.set_weights(dense.get_weights())
    assert_close(output_of(blocks), expected)


@pytest.mark.sampled(2)
@each_router
def test_a_mask_of_nothing_is_no_mask(make: Callable[[], Any]) -> None:
    layer, nothing = routed(make()), np.ones((B, S), bool)
    expected = output_of(layer)
    np.testing.assert_array_equal(output_of(layer, key_mask=nothing), expected)
    np.testing.assert_array_equal(output_of(layer, key_mask=nothing[:1, :1]), expected)


@each_router
def test_padding_displaces_no_token(make: Callable[[], Any]) -> None:
    real = 13
    layer, mask = routed(make()), np.arange(S) < np.full((B, 1), real)
    short = output_of(layer, QUERY[:, :real], KEY[:, :real], VALUE[:, :real])
    padded = output_of(layer, QUERY, KEY, VALUE, query_mask=mask, key_mask=mask)
    if not isinstance(layer.router, Blocks):
        assert_close(padded[:, :real], short)
    np.testing.assert_array_equal(padded[:, real:], 0)


def test_router_decides_the_default_score() -> None:
    assert Routed("blocks").get_config()["score"]["config"]["scale"] is True
    assert not Routed(Blocks()).shares_query_and_key
    assert Routed(Lsh()).shares_query_and_key
    assert Routed(Lsh(), "dot").shares_query_and_key
    assert Routed(Blocks(), "shared_dot").shares_query_and_key


@pytest.mark.parametrize("router", [Lsh(), KMeans(2, 3), Sinkhorn()], ids=lambda r: r.name)
@pytest.mark.parametrize(
    "pattern",
    [
        patterns.Causal(),
        patterns.Prefix(2),
        patterns.PerHead((patterns.Causal(), patterns.Full())),
        ~(~patterns.Causal()),
    ],
    ids=repr,
)
def test_router_by_content_refuses_causal_patterns(router: Any, pattern: patterns.Pattern) -> None:
    with pytest.raises(ValueError, match="the future would leak into the past"):
        Routed(router, "dot", pattern=pattern)


@pytest.mark.parametrize("parts", [{"pattern": patterns.Local(3)}, {"score": "alibi"}], ids=str)
def test_sinkhorn_refuses_parts_that_look_at_positions(parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Sinkhorn mixes tokens of several positions"):
        Routed(Sinkhorn(), **parts)


def test_queries_from_elsewhere_are_refused() -> None:
    with pytest.raises(ValueError, match="for cross-attention use the mechanism Lookup"):
        Routed(Blocks())(QUERY[:, :5], KEY, VALUE)


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`key_mask` must have shape \(B, S\) with .*S=23"):
        Routed(Blocks())(QUERY, KEY, VALUE, key_mask=MASKS["key_mask"][:, 1:])


test_wrong_arguments_are_refused = refusals(
    (lambda: Blocks(0), "`size` must be a positive integer. Received: size=0"),
    (lambda: Blocks(before=-1), "`before`"),
    (lambda: Lsh(buckets=5), "`buckets` must be even.* Received: buckets=5"),
    (lambda: Lsh(rounds=0), "`rounds` must be a positive integer"),
    (lambda: KMeans(3, 0), "`window` must be a positive integer"),
    (lambda: KMeans(3, 5, decay=1.5), "`decay` must be a finite number of at least 0"),
    (lambda: Sinkhorn(temperature=0), "`temperature` must be a finite number above 0"),
    (lambda: Sinkhorn(length=0), "`length` must be a positive integer"),
    (lambda: Routed("bloks"), "Expected a router .*Did you mean 'blocks'?"),
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("length", [7, 11])
def test_a_model_of_any_length_takes_every_length(length: int) -> None:
    inputs = keras.Input((None, H))
    layer = MultiHeadAttention(2, 4, Routed(Blocks(2), pattern=patterns.Local(2)))
    model = keras.Model(inputs, layer(inputs))
    model.predict(QUERY[:, :13, 0], verbose=0)
    found = model.predict(QUERY[:, :length, 0], verbose=0)
    assert_close(found, keras.ops.convert_to_numpy(layer(QUERY[:, :length, 0])))


def test_graph_fails_where_queries_and_keys_differ_in_number() -> None:
    tf = tensorflow()
    layer = Routed(Blocks(4))
    unknown = [tf.TensorSpec((None, None, N, size)) for size in (H, H, V)]
    graph = tf.function(lambda *inputs: layer(*inputs)[0], input_signature=unknown)
    assert graph(QUERY, KEY, VALUE).shape == (B, S, N, V)
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(QUERY[:, :5], KEY, VALUE)
