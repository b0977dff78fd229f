"""Scores of distances: T5's buckets, ALiBi's slopes and Transformer-XL's sinusoids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import scores
from tests.support.arrays import assert_close, weights_of
from tests.support.references import scores as reference
from tests.support.score_case import B, H, N, expected, vectors, with_random_weights


def test_relative_dot_without_weights_leaves_the_dot_product() -> None:
    query, key = vectors()
    relative = scores.RelativeDot(9)
    relative.build(query.shape, key.shape)
    relative.set_weights([np.zeros_like(weight) for weight in weights_of(relative)])
    score = scores.Dot(scale=True, query_bias=True) + relative
    assert_close(score(query, key), scores.get("scaled_dot")(query, key), atol=1e-6)


@pytest.mark.parametrize(("queries", "keys"), [(7, 3), (5, 0), (0, 5), (0, 0)])
def test_relative_dot_takes_any_sizes(queries: int, keys: int) -> None:
    query, key = vectors(queries, keys)
    score = with_random_weights(scores.RelativeDot(4), query, key)
    logits = np.asarray(score(query, key))
    assert logits.shape == (B, N, queries, keys)
    pair_score = reference.relative_dot(*weights_of(score), max_distance=4)
    assert_close(logits, expected(pair_score, query, key))


def test_buckets_are_those_of_t5() -> None:
    score = scores.RelativeBuckets()
    # Half of the 32 for each direction: 8 of one distance, then 8 * 16^(m / 8).
    first_of_each = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    for number, distance in enumerate(first_of_each):
        assert score.bucket(distance) == number
        assert score.bucket(-distance) == (number + 16 if distance else 0)
        if distance > 1:
            assert score.bucket(distance - 1) == number - 1
    assert score.bucket(10**6) == 15
    one_way = scores.RelativeBuckets(bidirectional=False)
    assert one_way.bucket(np.int64(128)) == 31  # no overflow
    assert [one_way.bucket(d) for d in (-9, 0, 15, 16, 128, 999)] == [0, 0, 15, 16, 31, 31]


@pytest.mark.parametrize(
    ("num_buckets", "max_distance", "bidirectional"),
    [(32, 128, True), (32, 128, False), (7, 1000, False), (4, 10, True), (2, 2, False)],
    ids=str,
)
def test_buckets_follow_the_formula(
    num_buckets: int, max_distance: int, bidirectional: bool
) -> None:
    config = num_buckets, max_distance, bidirectional
    score = scores.RelativeBuckets(*config)
    for distance in range(-max_distance - 3, max_distance + 3):
        assert score.bucket(distance) == reference.bucket(distance, *config)


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (1, [2**-8]),
        (2, [2**-4, 2**-8]),
        (8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]),
        (3, [2**-4, 2**-8, 2**-2]),
        (6, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]),
    ],
)
@pytest.mark.parametrize("integer", [int, np.int64])
def test_slopes_are_those_of_alibi(
    integer: Callable[[int], Any], heads: int, slopes: list[float]
) -> None:
    score = scores.Alibi()
    score.build(*[(None, None, integer(heads), H)] * 2)
    np.testing.assert_array_equal(score.slopes, np.array(slopes, "float32"))
    assert not score.trainable_weights
