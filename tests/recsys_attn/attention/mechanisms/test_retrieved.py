"""Queries that look up a few keys: no query minds another, nor padding, nor how many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import patterns
from recsys_attn.attention.mechanisms import Lookup, Routed
from recsys_attn.attention.routers import Blocks, KMeans, Lsh, Router, Sinkhorn
from tests.support.layer_case import tensorflow

B, T, S, N, H, V = 2, 3, 23, 5, 7, 11
RNG = np.random.default_rng(0)
QUERY = RNG.normal(size=(B, T, N, H)).astype("float32")
KEY = RNG.normal(size=(B, S, N, H)).astype("float32")
VALUE = RNG.normal(size=(B, S, N, V)).astype("float32")
INPUTS = (QUERY, KEY, VALUE)
KEY_MASK = RNG.random((B, S)) < 0.7
QUERY_MASK = np.array([[True, False, True], [True, True, True]])

ROUTERS: dict[str, Callable[[], Any]] = {
    "band": lambda: Blocks(4),
    "edges and random blocks": lambda: Blocks(4, 1, 0, first=1, last=2, random=2),
    "lsh": lambda: Lsh(3, buckets=4, rounds=2),
    "k_means": lambda: KMeans(3, window=6),
    "sinkhorn": lambda: Sinkhorn(4, length=40),
}
each_router = pytest.mark.parametrize("make", ROUTERS.values(), ids=ROUTERS)


def retrieved(router: Any, **kwargs: Any) -> Lookup:
    return Lookup(router, "scaled_dot", **kwargs)


def output_of(layer: Any, *inputs: Any, **kwargs: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(layer(*(inputs or INPUTS), **kwargs)[0])


def assert_close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@each_router
def test_queries_do_not_mind_each_other(make: Callable[[], Any]) -> None:
    layer = Lookup(make())
    together = output_of(layer, key_mask=KEY_MASK)
    for t in range(T):
        alone = output_of(layer, QUERY[:, t : t + 1], KEY, VALUE, key_mask=KEY_MASK)
        np.testing.assert_allclose(alone, together[:, t : t + 1], rtol=1e-5, atol=1e-6)
    turned = output_of(layer, QUERY[:, ::-1], KEY, VALUE, key_mask=KEY_MASK)
    np.testing.assert_allclose(turned[:, ::-1], together, rtol=1e-5, atol=1e-6)


@each_router
def test_heads_do_not_meet(make: Callable[[], Any]) -> None:
    layer = retrieved(make())
    together = output_of(layer, key_mask=KEY_MASK)
    for head in (0, N - 1):
        one = slice(head, head + 1)
        alone = retrieved(make())
        inputs = [x[:, :, one] for x in INPUTS]
        output_of(alone, *inputs)
        alone.set_weights([weight[one] for weight in layer.get_weights()])
        assert_close(output_of(alone, *inputs, key_mask=KEY_MASK), together[:, :, one])


@each_router
def test_padding_changes_nothing(make: Callable[[], Any]) -> None:
    layer, real = retrieved(make()), 13
    mask = np.arange(S) < np.full((B, 1), real)
    short = output_of(layer, QUERY, KEY[:, :real], VALUE[:, :real], query_positions=np.array([11]))
    wild = [np.where(mask[..., None, None], x, 1e3).astype("float32") for x in (KEY, VALUE)]
    given = {"key_mask": mask, "query_positions": np.array([11])}
    padded = output_of(layer, QUERY, KEY, VALUE, **given)
    np.testing.assert_array_equal(output_of(layer, QUERY, *wild, **given), padded)
    if not isinstance(layer.router, Blocks) or not layer.router.random:
        assert_close(padded, short)


@each_router
def test_nothing_to_find_gives_zeros(make: Callable[[], Any]) -> None:
    layer = Lookup(make())
    mask = KEY_MASK & np.array([[True], [False]])
    output = output_of(layer, query_mask=QUERY_MASK, key_mask=mask)
    np.testing.assert_array_equal(output[1], 0)
    np.testing.assert_array_equal(output[0, 1], 0)
    assert np.abs(output[0, ::2]).max() > 0
    empty = output_of(layer, QUERY, KEY[:, :0], VALUE[:, :0])
    np.testing.assert_array_equal(empty, np.zeros((B, T, N, V)))
    assert output_of(layer, QUERY[:, :0], KEY, VALUE).shape == (B, 0, N, V)


@each_router
def test_a_batch_of_one_is_shared(make: Callable[[], Any]) -> None:
    layer, repeat = retrieved(make()), (B, 1, 1, 1)
    one = np.tile(QUERY[:1], repeat)
    assert_close(output_of(layer, QUERY[:1], KEY, VALUE), output_of(layer, one, KEY, VALUE))
    keys = [x[:1] for x in (KEY, VALUE)]
    expected = output_of(layer, QUERY, *(np.tile(x, repeat) for x in keys), key_mask=KEY_MASK)
    assert_close(output_of(layer, QUERY, *keys, key_mask=KEY_MASK), expected)
    expected = output_of(layer, one, *(np.tile(x, repeat) for x in keys), key_mask=KEY_MASK)
    assert_close(output_of(layer, QUERY[:1], *keys, key_mask=KEY_MASK), expected)


@each_router
def test_a_graph_of_unknown_sizes_gives_the_same(make: Callable[[], Any]) -> None:
    tf = tensorflow()
    layer = Lookup(make())
    output_of(layer)
    shapes = [(None, None, N, size) for size in (H, H, V)]
    graph = tf.function(
        lambda query, key, value, mask, positions: layer(
            query, key, value, key_mask=mask, query_positions=positions
        )[0],
        input_signature=[
            *map(tf.TensorSpec, shapes),
            tf.TensorSpec((None, None), tf.bool),
            tf.TensorSpec((None, None), tf.int32),
        ],
    )
    for queries, keys in ((3, 0), (1, 1), (2, 4), (3, 17), (0, 5)):
        inputs = QUERY[:, :queries], KEY[:, :keys], VALUE[:, :keys]
        positions = np.full((B, queries), keys, "int32")
        expected = output_of(layer, *inputs, key_mask=KEY_MASK[:, :keys])
        assert_close(graph(*inputs, KEY_MASK[:, :keys], positions), expected)


@each_router
def test_gradients_reach_queries_keys_and_values(make: Callable[[], Any]) -> None:
    tf = tensorflow()
    layer, inputs = Lookup(make()), [tf.constant(x) for x in INPUTS]

    @tf.function
    def gradients() -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(layer(*inputs, key_mask=KEY_MASK, training=True)[0] ** 2)
        return tape.gradient(loss, [*inputs, *layer.trainable_variables])

    for gradient in gradients():
        gradient = tf.convert_to_tensor(gradient)
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 0
        if gradient.shape[1] == S:
            np.testing.assert_array_equal(gradient[~KEY_MASK], 0)


def test_centroids_follow_queries_and_keys_in_training() -> None:
    layer, routed = retrieved(KMeans(4, 6, decay=0.7)), Routed(KMeans(4, 6, decay=0.7))
    output_of(layer)
    output_of(routed, KEY, KEY, VALUE)
    routed.set_weights(layer.get_weights())
    output_of(layer, KEY, KEY, VALUE, query_mask=KEY_MASK, key_mask=KEY_MASK, training=True)
    output_of(routed, KEY, KEY, VALUE, query_mask=KEY_MASK, key_mask=KEY_MASK, training=True)
    assert_close(layer.get_weights()[0], routed.get_weights()[0])


class GroupsOnly(Router):
    pass


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: Lookup(Lsh(), "dot", patterns.Causal()), "the future would leak"),
        (lambda: Lookup(Sinkhorn(), "alibi"), "Sinkhorn mixes tokens of several positions"),
        (lambda: Lookup(Blocks())(QUERY, KEY, VALUE[:, 1:]), "`key` and `value` must have"),
        (lambda: Lookup(Blocks())(*INPUTS, key_mask=KEY_MASK[:, 1:]), r"`key_mask`.*S=23"),
        (lambda: Lookup(Lsh(), "general")(QUERY[..., 1:], KEY, VALUE), "Lsh compares.*one size"),
    ],
)
def test_wrong_use_is_refused(attempt: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attempt()


def test_a_router_of_ones_own_must_look_up() -> None:
    with pytest.raises(NotImplementedError, match="GroupsOnly must implement `look_up`"):
        Lookup(GroupsOnly())(*INPUTS)
