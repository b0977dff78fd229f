"""What is particular to each score that looks at distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import scores
from tests.support.references import scores as reference
from tests.support.rounding import ULPS
from tests.support.score_case import (
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


def test_transformer_xl_is_a_sum() -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    score = scores.Dot(scale=True, query_bias=True) + scores.RelativeDot(9, scale=True, units=6)
    with_random_weights(score, query, key)
    u, kernel, v = weights(score)

    def pair_score(q: np.ndarray, k: np.ndarray, n: int, i: int, j: int) -> float:
        angles = (i - j) * 10000.0 ** (-np.arange(3) / 3)
        place = np.concatenate([np.sin(angles), np.cos(angles)]) @ kernel[n]
        return float((q @ k + q @ place + u[n] @ k + v[n] @ place) / np.sqrt(H))

    np.testing.assert_allclose(
        score(query, key), expected(pair_score, query, key), rtol=1e-4, atol=1e-5
    )


def test_relative_dot_without_weights_leaves_the_dot_product() -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    relative = scores.RelativeDot(9)
    relative.build(query.shape, key.shape)
    relative.set_weights([np.zeros_like(weight) for weight in weights(relative)])
    score = scores.Dot(scale=True, query_bias=True) + relative
    np.testing.assert_allclose(
        score(query, key), scores.get("scaled_dot")(query, key), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("queries", "keys"), [(1, 1), (3, 7), (7, 7), (7, 3), (5, 0), (0, 5), (0, 0)]
)
def test_relative_dot_equals_loops_for_any_sizes(queries: int, keys: int) -> None:
    query, key = arrays((B, queries, N, H), (B, keys, N, H))
    score = with_random_weights(scores.RelativeDot(4), query, key)
    logits = np.asarray(score(query, key))
    assert logits.shape == (B, N, queries, keys)
    kernel, bias = weights(score)
    wanted = expected(reference.relative_dot(kernel, bias, max_distance=4), query, key)
    np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-5)


def test_buckets_of_t5() -> None:
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
    assert [one_way.bucket(distance) for distance in (-9, 0, 15, 16, 128, 999)] == [
        0,
        0,
        15,
        16,
        31,
        31,
    ]


@pytest.mark.parametrize(
    ("num_buckets", "max_distance", "bidirectional"),
    [(32, 128, True), (32, 128, False), (7, 1000, False), (4, 10, True), (2, 2, False)],
    ids=str,
)
def test_buckets_follow_the_formula(
    num_buckets: int, max_distance: int, bidirectional: bool
) -> None:
    score = scores.RelativeBuckets(num_buckets, max_distance, bidirectional)
    for distance in range(-max_distance - 3, max_distance + 3):
        assert score.bucket(distance) == reference.bucket(
            distance, num_buckets, max_distance, bidirectional
        )


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
def test_slopes_of_alibi(integer: Callable[[int], Any], heads: int, slopes: list[float]) -> None:
    score = scores.Alibi()
    score.build(*[(None, None, integer(heads), H)] * 2)
    np.testing.assert_array_equal(score.slopes, np.array(slopes, "float32"))
    assert not score.trainable_weights


@pytest.mark.parametrize("interleaved", [False, True], ids=["half-split", "interleaved"])
def test_rotary_tells_distances_and_not_places(interleaved: bool) -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    score = scores.Rotary("dot", interleaved=interleaved)
    rows, columns = positions((B, N, T), (B, N, S))
    logits = np.asarray(score(query, key, None, rows, columns))
    moved = score(query, key, None, rows + 100, columns + 100)
    np.testing.assert_allclose(moved, logits, rtol=1e-3, atol=1e-4)
    still = score(query, key, None, 0 * rows, 0 * columns)
    np.testing.assert_allclose(still, scores.Dot()(query, key), rtol=1e-5, atol=1e-5)


def test_rotary_layouts_differ_by_the_order_of_the_channels() -> None:
    query, key = arrays((B, T, N, 6), (B, S, N, 6))
    order = [0, 3, 1, 4, 2, 5]
    interleaved = scores.Rotary("dot", interleaved=True)(query[..., order], key[..., order])
    np.testing.assert_allclose(interleaved, scores.Rotary("dot")(query, key), atol=1e-5)


def test_rotary_turns_far_positions_exactly_in_half_precision() -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    far = [place + 1000 for place in positions((B, N, T), (B, N, S))]
    exact = np.asarray(scores.Rotary("dot")(query, key, None, *far))
    half = scores.Rotary("dot", dtype="mixed_bfloat16")(query, key, None, *far)
    half = keras.ops.convert_to_numpy(keras.ops.cast(half, "float32"))
    np.testing.assert_allclose(half, exact, atol=0.05 * np.abs(exact).max())


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_an_event_attends_itself_only_if_alone(policy: str) -> None:
    (x,) = arrays((B, S, N, H))
    allowed = np.broadcast_to(np.tri(S, dtype=bool), (1, 1, S, S))
    score, softmax = scores.SharedDot(dtype=policy), keras.layers.Softmax()
    assert score.shares_query_and_key
    logits = keras.ops.cast(score(x, x), "float32")
    weights = np.asarray(softmax(logits, mask=np.broadcast_to(allowed, logits.shape)))
    np.testing.assert_allclose(weights[:, :, 0, 0], 1, rtol=ULPS)
    np.testing.assert_array_equal(np.diagonal(weights, axis1=2, axis2=3)[..., 1:], 0)
    free = np.asarray(
        scores.SharedDot(self_penalty=0)(x / np.linalg.norm(x, axis=-1)[..., None], x)
    )
    np.testing.assert_array_equal(free.argmax(-1), np.broadcast_to(np.arange(S), (B, N, S)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scores.RelativeDot(0), "`max_distance` must be a positive integer"),
        (lambda: scores.RelativeDot(4, units=3), "`units` must be even.*units=3"),
        (lambda: scores.RelativeBuckets(7), "`num_buckets` must be even.*num_buckets=7"),
        (
            lambda: scores.RelativeBuckets(32, 8),
            "`max_distance` must be greater.*16 buckets in a direction, max_distance=8",
        ),
        (lambda: scores.RelativeBuckets(2), "at least 2 buckets.*1 buckets in a direction"),
        (lambda: scores.Rotary("alibi"), r"Rotary\(\) \+ Alibi\(\).*type Alibi"),
        (lambda: scores.Rotary(base=1), "`base` must be a finite number above 1"),
        (
            lambda: scores.SharedDot(self_penalty=1.0),
            "`self_penalty` must be a finite number at most 0",
        ),
    ],
)
def test_arguments_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_channels_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the head size must be even\. Received: head size 5"):
        scores.Rotary()(*arrays((B, T, N, 5), (B, S, N, 5)))
    for make in (scores.Rotary, scores.SharedDot):
        with pytest.raises(ValueError, match="vectors of one size"):
            make()(*arrays((B, T, N, 4), (B, S, N, 6)))
