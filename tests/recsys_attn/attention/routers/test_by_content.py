"""LSH, k-means and Sinkhorn equal loops, and `Dense` in their limits."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import patterns, scores
from recsys_attn.attention.mechanisms import Dense, Routed
from recsys_attn.attention.routers import KMeans, Lsh, Sinkhorn
from recsys_attn.attention.routers.balancing import sinkhorn
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.heads import EVERYTHING, KEY, VALUE, B, H, N, S, V
from tests.support.heads import KEY_MASK as REAL
from tests.support.heads import SELF as QUERY
from tests.support.heads import self_output as output_of
from tests.support.layer_case import tensorflow
from tests.support.references import routers as loops

RNG = np.random.default_rng(0)
PADDED = {"query_mask": REAL, "key_mask": REAL}
masked = pytest.mark.parametrize("masks", [{}, PADDED], ids=["no masks", "all masks"])


def lsh_pairs(layer: Routed, real: np.ndarray) -> np.ndarray:
    """Which pairs meet in any round: (B, N, S, S)."""
    (rotations,) = layer.get_weights()
    return np.array(
        [
            [
                loops.lsh_pairs(
                    KEY[b, :, n],
                    np.split(rotations[n], layer.router.rounds, axis=1),
                    layer.router.size,
                    real[b],
                )
                for n in range(N)
            ]
            for b in range(B)
        ]
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("size", "buckets", "rounds"), [(4, 2, 1), (3, 6, 2), (4, 2, 5), (23, 4, 3), (64, 2, 1)]
)
def test_lsh_is_the_softmax_over_the_union_of_its_rounds(
    size: int, buckets: int, rounds: int
) -> None:
    layer = Routed(Lsh(size, buckets, rounds), "scaled_dot")
    output = output_of(layer, **PADDED)
    pairs = lsh_pairs(layer, REAL)
    logits = reference.dot(QUERY, KEY, scale=True)
    assert_close(output, loops.attended(logits, pairs, VALUE))


def test_a_pattern_holds_within_the_buckets() -> None:
    layer = Routed(Lsh(4, 2, 3), "scaled_dot", patterns.Local(5))
    output = output_of(layer)
    window = np.abs(np.subtract.outer(np.arange(S), np.arange(S))) <= 5
    logits = reference.dot(QUERY, KEY, scale=True)
    assert_close(output, loops.attended(logits, lsh_pairs(layer, EVERYTHING) & window, VALUE))


@masked
@pytest.mark.parametrize("score", ["shared_dot", "scaled_dot"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_one_chunk_and_one_bucket_are_dense(rounds: int, score: str, masks: dict[str, Any]) -> None:
    layer = Routed(Lsh(S, buckets=1, rounds=rounds), score)
    assert_close(output_of(layer, **masks), output_of(Dense(score), **masks))


def test_lsh_joins_rounds_with_its_own_score() -> None:
    """Also where a token meets nobody but itself, which weighs next to nothing."""
    layer = Routed(Lsh(3, buckets=6, rounds=4))
    output = output_of(layer, KEY, KEY, VALUE)
    logits = keras.ops.convert_to_numpy(scores.get("shared_dot")(KEY, KEY)).astype("float64")
    assert_close(output, loops.attended(logits, lsh_pairs(layer, EVERYTHING), VALUE))


def k_means_of(layer: Routed, query_real: np.ndarray, key_real: np.ndarray) -> np.ndarray:
    (centroids,) = layer.get_weights()
    output = np.zeros((B, S, N, V))
    for b, n in np.ndindex(B, N):
        output[b, :, n] = loops.k_means(
            QUERY[b, :, n].astype("float64"),
            KEY[b, :, n].astype("float64"),
            VALUE[b, :, n],
            centroids[n],
            layer.router.window,
            query_real[b],
            key_real[b],
        )
    return output


@pytest.mark.parametrize(("clusters", "window"), [(1, 4), (5, 3), (2, 99)])
def test_k_means_equals_loops(clusters: int, window: int) -> None:
    layer = Routed(KMeans(clusters, window))
    assert_close(output_of(layer), k_means_of(layer, EVERYTHING, EVERYTHING))
    masks = {"query_mask": RNG.random((B, S)) < 0.5, "key_mask": RNG.random((B, S)) < 0.5}
    assert_close(output_of(layer, **masks), k_means_of(layer, *masks.values()))


@masked
@pytest.mark.parametrize("window", [S, 99])
def test_one_cluster_as_wide_as_the_sequence_is_dense(window: int, masks: dict[str, Any]) -> None:
    assert_close(output_of(Routed(KMeans(1, window)), **masks), output_of(Dense(), **masks))


def test_centroids_follow_the_tokens_in_training_only() -> None:
    layer = Routed(KMeans(4, 6, decay=0.7))
    masks = {"query_mask": RNG.random((B, S)) < 0.5, "key_mask": RNG.random((B, S)) < 0.5}
    output_of(layer, **masks)
    (before,) = layer.get_weights()
    before[:, 2] = -before[:, 1]
    before[:, 3] = 1.0  # at right angles to all tokens, so one of the others is nearer
    layer.set_weights([before])
    output_of(layer, **masks)
    np.testing.assert_array_equal(layer.get_weights()[0], before)
    output_of(layer, **masks, training=True)
    for n in range(N):
        sides = [(QUERY[:, :, n], masks["query_mask"]), (KEY[:, :, n], masks["key_mask"])]
        expected = loops.moved_centroids(sides, before[n], decay=0.7)
        assert_close(layer.get_weights()[0][n], expected)
        np.testing.assert_array_equal(expected[3], before[n, 3])


def test_padding_alone_moves_no_centroid() -> None:
    layer, nothing = Routed(KMeans(4, 6)), np.zeros((B, S), bool)
    output_of(layer)
    (before,) = layer.get_weights()
    output_of(layer, query_mask=nothing, key_mask=nothing, training=True)
    np.testing.assert_array_equal(layer.get_weights()[0], before)


def test_k_means_compares_queries_with_keys() -> None:
    with pytest.raises(ValueError, match=r"they must have one size. Received: query size 4, key"):
        Routed(KMeans(2, 3), "general")(QUERY[..., :4], KEY, VALUE)


@masked
@pytest.mark.parametrize("size", [4, 12, 64])
def test_sinkhorn_equals_loops(size: int, masks: dict[str, Any]) -> None:
    layer = Routed(Sinkhorn(size, iterations=5, temperature=0.9, length=31))
    output = output_of(layer, **masks)
    real = masks.get("key_mask", EVERYTHING)
    for b, n in np.ndindex(B, N):
        kernels = tuple(weight[n].astype("float64") for weight in layer.get_weights())
        inputs = (x[b, :, n].astype("float64") for x in (QUERY, KEY, VALUE))
        expected = loops.sinkhorn(*inputs, kernels, size, real[b], 5, 0.9)
        if masks:
            expected = expected * real[b][:, None]
        np.testing.assert_allclose(output[b, :, n], expected, rtol=1e-3, atol=1e-4)


@masked
def test_a_single_block_is_dense(masks: dict[str, Any]) -> None:
    assert_close(output_of(Routed(Sinkhorn(S)), **masks), output_of(Dense(), **masks))


def test_a_hard_sort_puts_another_block_next_to_each() -> None:
    """With the kernels that tell blocks by what they hold, block i gets block i + 1."""
    size, blocks = 4, 3
    turn = np.roll(np.eye(blocks), 1, axis=1)
    key = np.repeat(np.eye(blocks, dtype="float32"), size, axis=0)[None, :, None]
    value = RNG.normal(size=(1, blocks * size, 1, V)).astype("float32")
    layer = Routed(Sinkhorn(size, iterations=20, temperature=0.05))
    output_of(layer, key, key, value)
    layer.set_weights([np.eye(blocks)[None], turn[None]])
    pairs = np.kron(np.eye(blocks) + turn, np.ones((size, size))).astype(bool)
    expected = loops.attended(reference.dot(key, key, scale=True), pairs[None, None], value)
    assert_close(output_of(layer, key, key, value), expected)
    # A partly padded block brings its real tokens only.
    real = np.arange(blocks * size)[None] < 10
    expected = loops.attended(
        reference.dot(key, key, scale=True), (pairs & real)[None, None], value
    )
    output = output_of(layer, key, key, value, key_mask=real)
    assert_close(output[:, :10], expected[:, :10])


@pytest.mark.parametrize("real", [7, 4])
def test_rows_and_columns_sum_to_one(real: int) -> None:
    # Numbers of its own: those of the module depend on the tests that ran before.
    logits = np.random.default_rng(1).normal(size=(B, N, 7, 7)).astype("float32")
    allowed = np.arange(7) < real
    matrix = np.asarray(sinkhorn(logits, allowed[:, None] & allowed, iterations=30))
    for axis in (-1, -2):
        np.testing.assert_allclose(matrix.sum(axis)[..., :real], 1, atol=1e-3)
        np.testing.assert_array_equal(matrix.sum(axis)[..., real:], 0)


def test_the_sort_is_noisy_in_training_only() -> None:
    layer = Routed(Sinkhorn(4))
    still = output_of(layer)
    np.testing.assert_array_equal(output_of(layer), still)
    first, second = (output_of(layer, training=True) for _ in range(2))
    assert np.abs(first - still).max() > 1e-2
    assert np.abs(first - second).max() > 1e-2


def test_sinkhorn_wants_a_longest_length() -> None:
    unknown = [(None, None, N, size) for size in (H, H, V)]
    with pytest.raises(ValueError, match="give it `length`, the longest sequence"):
        Routed(Sinkhorn(4)).build(*unknown)
    layer = Routed(Sinkhorn(4, length=8))
    layer.build(*unknown)
    with pytest.raises(ValueError, match=r"sequences of up to 8.*Received: 23 positions"):
        output_of(layer)


def test_graph_fails_beyond_the_length_of_sinkhorn() -> None:
    tf = tensorflow()
    layer = Routed(Sinkhorn(2, length=2))
    unknown = [tf.TensorSpec((None, None, N, size)) for size in (H, H, V)]
    graph = tf.function(lambda *inputs: layer(*inputs)[0], input_signature=unknown)
    inputs = (QUERY, KEY, VALUE)
    assert graph(*(x[:, :2] for x in inputs)).shape == (B, 2, N, V)
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(*(x[:, :7] for x in inputs))


@pytest.mark.parametrize("pattern", [patterns.Block(4, 1, 0), patterns.Local(5, 1)], ids=repr)
@pytest.mark.parametrize("router", [Lsh(4, buckets=4), KMeans(3, window=6)], ids=["lsh", "k-means"])
def test_a_one_sided_pattern_would_leak_the_future(router: Any, pattern: patterns.Pattern) -> None:
    with pytest.raises(ValueError, match="the future would leak into the past"):
        Routed(router, pattern=pattern)


def test_step_without_requests_moves_no_centroid() -> None:
    layer = Routed(KMeans(2, 4))
    output_of(layer, training=True)
    (centroids,) = layer.get_weights()
    output_of(layer, QUERY[:0], KEY[:0], VALUE[:0], training=True)
    np.testing.assert_array_equal(layer.get_weights()[0], centroids)
