"""Attention in groups: what holds for every router, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention, patterns
from recsys_attn.attention.mechanisms import Dense, Routed
from recsys_attn.attention.routers import Blocks, KMeans, Lsh, Sinkhorn
from tests.support.layer_case import tensorflow

B, S, N, H, V = 2, 23, 3, 5, 7
RNG = np.random.default_rng(0)
QUERY, KEY = RNG.normal(size=(2, B, S, N, H)).astype("float32")
VALUE = RNG.normal(size=(B, S, N, V)).astype("float32")
MASKS = {"query_mask": RNG.random((B, S)) < 0.7, "key_mask": RNG.random((B, S)) < 0.7}
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


def output_of(layer: Any, *inputs: Any, **kwargs: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(layer(*(inputs or (QUERY, KEY, VALUE)), **kwargs)[0])


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("score", ["general", "additive", "relative_buckets", "alibi"])
def test_scores_run_in_groups_as_over_the_whole(score: str) -> None:
    dense, blocks = Dense(score), Routed(Blocks(4, 5, 5), score)
    expected = output_of(dense)
    output_of(blocks)
    blocks.set_weights(dense.get_weights())
    assert_close(output_of(blocks), expected)


@each_router
def test_heads_do_not_meet(make: Callable[[], Any]) -> None:
    layer = routed(make())
    together = output_of(layer, **MASKS)
    for head in range(N):
        one = slice(head, head + 1)
        alone = routed(make())
        inputs = (QUERY[:, :, one], KEY[:, :, one], VALUE[:, :, one])
        output_of(alone, *inputs)
        alone.set_weights([weight[one] for weight in layer.get_weights()])
        assert_close(output_of(alone, *inputs, **MASKS), together[:, :, one])


@each_router
def test_a_mask_of_nothing_is_no_mask(make: Callable[[], Any]) -> None:
    layer, nothing = routed(make()), np.ones((B, S), bool)
    expected = output_of(layer)
    np.testing.assert_array_equal(output_of(layer, key_mask=nothing), expected)
    np.testing.assert_array_equal(output_of(layer, key_mask=nothing[:1, :1]), expected)


@each_router
@pytest.mark.parametrize("masks", [{}, MASKS], ids=["no masks", "all masks"])
@pytest.mark.parametrize("length", [S, 0])
def test_a_batch_of_nothing_gives_nothing(
    make: Callable[[], Any], masks: dict[str, Any], length: int
) -> None:
    layer = routed(make())
    output_of(layer)
    inputs = [x[:0, :length] for x in (QUERY, KEY, VALUE)]
    masks = {name: mask[:0, :length] for name, mask in masks.items()}
    for training in (False, True):
        output = output_of(layer, *inputs, **masks, training=training)
        assert output.shape == (0, length, N, V)


@each_router
def test_padding_displaces_nobody(make: Callable[[], Any]) -> None:
    real = 13
    layer, mask = routed(make()), np.arange(S) < np.full((B, 1), real)
    short = output_of(layer, QUERY[:, :real], KEY[:, :real], VALUE[:, :real])
    padded = output_of(layer, QUERY, KEY, VALUE, query_mask=mask, key_mask=mask)
    if not isinstance(layer.router, Blocks):
        assert_close(padded[:, :real], short)
    np.testing.assert_array_equal(padded[:, real:], 0)


@each_router
def test_a_graph_of_unknown_sizes_gives_the_same(make: Callable[[], Any]) -> None:
    tf = tensorflow()
    layer = routed(make())
    output_of(layer)
    shapes = [(None, None, N, size) for size in (H, H, V)]
    graph = tf.function(
        lambda q, k, v, mask: layer(q, k, v, query_mask=mask, key_mask=mask)[0],
        input_signature=[*map(tf.TensorSpec, shapes), tf.TensorSpec((None, None), tf.bool)],
    )
    for length in (0, 1, 4, 17):
        inputs = [x[:, :length] for x in (QUERY, KEY, VALUE)]
        mask = MASKS["key_mask"][:, :length]
        assert_close(
            graph(*inputs, mask), output_of(layer, *inputs, query_mask=mask, key_mask=mask)
        )
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(QUERY[:, :5], KEY, VALUE, MASKS["key_mask"])


@each_router
def test_gradients_reach_queries_keys_and_values(make: Callable[[], Any]) -> None:
    tf = tensorflow()
    layer, inputs = routed(make()), [tf.constant(x) for x in (QUERY, KEY, VALUE)]

    @tf.function
    def gradients() -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(layer(*inputs, **MASKS, training=True)[0] ** 2)
        return tape.gradient(loss, [*inputs, *layer.trainable_variables])

    for gradient in gradients():
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 0


def test_dropout_drops_weights_in_training_only() -> None:
    layer = Routed(Blocks(4), dropout=0.5)
    still = output_of(layer)
    np.testing.assert_array_equal(output_of(layer), still)
    assert np.abs(output_of(layer, training=True) - still).max() > 0.1


def test_the_router_says_which_score_and_whether_queries_are_keys() -> None:
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
def test_a_router_that_sees_the_future_refuses_a_pattern_that_hides_it(
    router: Any, pattern: patterns.Pattern
) -> None:
    with pytest.raises(ValueError, match="the future would leak into the past"):
        Routed(router, "dot", pattern=pattern)


@pytest.mark.parametrize("parts", [{"pattern": patterns.Local(3)}, {"score": "alibi"}], ids=str)
def test_sinkhorn_refuses_parts_that_look_at_positions(parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Sinkhorn mixes tokens of several positions"):
        Routed(Sinkhorn(), **parts)


def test_queries_from_elsewhere_are_refused() -> None:
    with pytest.raises(ValueError, match="for cross-attention use the mechanism Lookup"):
        Routed(Blocks())(QUERY[:, :5], KEY, VALUE)


@each_router
def test_one_sequence_may_be_under_several_masks(make: Callable[[], Any]) -> None:
    layer, one = routed(make()), [x[:1] for x in (QUERY, KEY, VALUE)]
    several = [np.repeat(x, B, axis=0) for x in one]
    for masks in (MASKS, {"key_mask": MASKS["key_mask"]}, {"query_mask": MASKS["query_mask"]}):
        assert_close(output_of(layer, *one, **masks), output_of(layer, *several, **masks))


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`key_mask` must have shape \(B, S\) with .*S=23"):
        Routed(Blocks())(QUERY, KEY, VALUE, key_mask=MASKS["key_mask"][:, 1:])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Blocks(0), "`size` must be a positive integer. Received: size=0"),
        (lambda: Blocks(before=-1), "`before`"),
        (lambda: Lsh(buckets=5), "`buckets` must be even.* Received: buckets=5"),
        (lambda: Lsh(rounds=0), "`rounds` must be a positive integer"),
        (lambda: KMeans(3, 0), "`window` must be a positive integer"),
        (lambda: KMeans(3, 5, decay=1.5), "`decay` must be a finite number of at least 0"),
        (lambda: Sinkhorn(temperature=0), "`temperature` must be a finite number above 0"),
        (lambda: Sinkhorn(length=0), "`length` must be a positive integer"),
        (lambda: Routed("bloks"), "Expected a router .*Did you mean 'blocks'?"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("length", [7, 11])
def test_a_model_of_any_length_takes_every_length(length: int) -> None:
    inputs = keras.Input((None, H))
    layer = MultiHeadAttention(2, 4, Routed(Blocks(2), pattern=patterns.Local(2)))
    model = keras.Model(inputs, layer(inputs))
    model.predict(QUERY[:, :13, 0], verbose=0)
    found = model.predict(QUERY[:, :length, 0], verbose=0)
    assert_close(found, keras.ops.convert_to_numpy(layer(QUERY[:, :length, 0])))
