"""Scores that look at positions equal loops over pairs, wherever queries and keys stand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from recsys_attn.attention import scores
from tests.support.layer_case import tensorflow
from tests.support.references import scores as reference
from tests.support.score_case import (
    LENGTH,
    B,
    H,
    N,
    S,
    T,
    arrays,
    expected,
    positions,
    weights,
    with_random_weights,
)

Reference = Callable[..., reference.PairScore]

CASES: dict[str, tuple[Callable[[], scores.Score], Reference]] = {
    "location": (lambda: scores.Location(LENGTH), reference.location),
    "dense_synthesizer": (
        lambda: scores.DenseSynthesizer(LENGTH, units=6),
        reference.dense_synthesizer,
    ),
    "random_synthesizer": (
        lambda: scores.RandomSynthesizer(LENGTH),
        reference.random_synthesizer,
    ),
    "factorised_dense_synthesizer": (
        lambda: scores.FactorisedDenseSynthesizer(LENGTH, factor=4),
        reference.factorised_dense_synthesizer,
    ),
    "factorised_random_synthesizer": (
        lambda: scores.FactorisedRandomSynthesizer(LENGTH, rank=2),
        reference.factorised_random_synthesizer,
    ),
    "relative_dot": (
        lambda: scores.RelativeDot(3),
        lambda *weights: reference.relative_dot(*weights, max_distance=3),
    ),
    "relative_dot, scaled": (
        lambda: scores.RelativeDot(100, scale=True, units=6),
        lambda *weights: reference.relative_dot(*weights, max_distance=100, scale=True),
    ),
    "relative_buckets": (
        lambda: scores.RelativeBuckets(8, 6),
        lambda table: reference.relative_buckets(table, 8, 6, True),
    ),
    "relative_buckets of the past": (
        lambda: scores.RelativeBuckets(5, 6, bidirectional=False),
        lambda table: reference.relative_buckets(table, 5, 6, False),
    ),
    "alibi": (scores.Alibi, reference.alibi),
    "rotary": (
        scores.Rotary,
        lambda: reference.rotary(reference.dot(scale=True), 10000, interleaved=False),
    ),
    "rotary, interleaved": (
        lambda: scores.Rotary("dot", base=50, interleaved=True),
        lambda: reference.rotary(reference.dot(), 50, interleaved=True),
    ),
    "shared_dot": (
        lambda: scores.SharedDot(self_penalty=-7.0),
        lambda: reference.shared_dot(scale=True, self_penalty=-7.0),
    ),
    "shared_dot of the authors' code": (
        lambda: scores.SharedDot(scale=False, self_penalty=-7.0),
        lambda: reference.shared_dot(scale=False, self_penalty=-7.0),
    ),
}
ALL_CASES = pytest.mark.parametrize(("make", "pair_score"), CASES.values(), ids=CASES)


@ALL_CASES
@pytest.mark.parametrize("batches", [(B, B), (1, B), (B, 1)], ids=str)
def test_score_equals_a_loop_over_pairs_at_their_natural_positions(
    make: Callable[[], scores.Score], pair_score: Reference, batches: tuple[int, int]
) -> None:
    query, key = arrays((batches[0], T, N, H), (batches[1], S, N, H))
    layer = with_random_weights(make(), query, key)
    logits = np.asarray(layer(query, key))
    np.testing.assert_allclose(
        logits, expected(pair_score(*weights(layer)), query, key), rtol=1e-4, atol=1e-5
    )


RELATIVE = ["relative_dot, scaled", "relative_buckets", "alibi", "rotary", "shared_dot"]


@pytest.mark.parametrize("sizes", [(1, 1), (1, S), (S, T), (T, 1), (S, S)], ids=str)
@pytest.mark.parametrize("name", RELATIVE)
def test_queries_are_the_last_of_the_keys_or_reach_back_before_them(
    name: str, sizes: tuple[int, int]
) -> None:
    make, pair_score = CASES[name]
    query, key = arrays((B, sizes[0], N, H), (B, sizes[1], N, H))
    layer = with_random_weights(make(), query, key)
    logits = np.asarray(layer(query, key))
    np.testing.assert_allclose(
        logits, expected(pair_score(*weights(layer)), query, key), rtol=1e-4, atol=1e-5
    )


@ALL_CASES
@pytest.mark.parametrize("leading", [(B, N), (1, N), (B, 1), (1, 1)], ids=str)
def test_score_equals_a_loop_over_pairs_at_any_positions(
    make: Callable[[], scores.Score], pair_score: Reference, leading: tuple[int, int]
) -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    rows, columns = positions((*leading, T), (*leading, S))
    layer = with_random_weights(make(), query, key)
    logits = np.asarray(layer(query, key, query_positions=rows, key_positions=columns))
    np.testing.assert_allclose(
        logits,
        expected(pair_score(*weights(layer)), query, key, (rows, columns)),
        rtol=1e-4,
        atol=1e-5,
    )


@ALL_CASES
@pytest.mark.parametrize("batches", [(1, B), (B, 1), (1, 1)], ids=str)
def test_positions_of_every_row_meet_queries_or_keys_that_all_share(
    make: Callable[[], scores.Score], pair_score: Reference, batches: tuple[int, int]
) -> None:
    query, key = arrays((batches[0], T, N, H), (batches[1], S, N, H))
    rows, columns = positions((B, N, T), (B, 1, S))
    layer = with_random_weights(make(), query, key)
    logits = layer(query, key, query_positions=rows, key_positions=columns)
    query, key = (np.repeat(x, B // len(x), axis=0) for x in (query, key))
    np.testing.assert_allclose(
        np.broadcast_to(logits, (B, N, T, S)),
        expected(pair_score(*weights(layer)), query, key, (rows, columns)),
        rtol=1e-4,
        atol=1e-5,
    )


@ALL_CASES
def test_queries_may_be_permuted_with_their_positions(
    make: Callable[[], scores.Score], pair_score: Reference
) -> None:
    query, key = arrays((B, S, N, H), (B, S, N, H))
    layer = with_random_weights(make(), query, key)
    order = np.random.default_rng(5).permutation(S)
    permuted = layer(
        query[:, order],
        key,
        query_positions=order[None, None],  # 64 bits where the natural ones have 32
    )
    np.testing.assert_allclose(permuted, np.asarray(layer(query, key))[:, :, order], atol=1e-5)


@ALL_CASES
def test_a_graph_that_knows_no_size_runs_at_any_positions(
    make: Callable[[], scores.Score], pair_score: Reference
) -> None:
    tf = tensorflow()
    query, key = arrays((B, T, N, H), (B, S, N, H))
    layer = with_random_weights(make(), query, key)
    per_head = tf.TensorSpec((None, None, N, H))
    places = tf.TensorSpec((None, None, None), "int32")
    graph = tf.function(
        lambda query, key, rows, columns: layer(query, key, None, rows, columns),
        input_signature=[per_head, per_head, places, places],
    )
    for leading in ((B, N), (1, 1), (B, 1)):
        rows, columns = positions((*leading, T), (*leading, S))
        logits = layer(query, key, None, rows, columns)
        np.testing.assert_allclose(graph(query, key, rows, columns), logits, atol=1e-5)


@ALL_CASES
def test_heads_do_not_mix(make: Callable[[], scores.Score], pair_score: Reference) -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    layer = with_random_weights(make(), query, key)
    logits = np.asarray(layer(query, key))
    order = np.random.default_rng(1).permutation(N)
    layer.set_weights([weight[order] for weight in weights(layer)])
    permuted = layer(query[:, :, order], key[:, :, order])
    np.testing.assert_allclose(permuted, logits[:, order], rtol=1e-5, atol=1e-6)
