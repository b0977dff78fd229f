"""The cosine of a zero vector is zero and has no gradient."""

from __future__ import annotations

import numpy as np

from recsys_attn.attention import scores
from tests.support.arrays import assert_close
from tests.support.gradients import gradient
from tests.support.score_case import B, H, N, S, T, vectors


def test_cosine_of_a_zero_vector_is_zero() -> None:
    query, key = vectors()
    query[0] = 0
    np.testing.assert_array_equal(scores.Cosine()(query, key)[0], 0)


def test_gradient_is_zero_at_a_zero_vector_and_right_elsewhere() -> None:
    query, key = vectors()
    query[0] = key[:, 0] = 0
    layer = scores.Cosine()
    by_query = gradient(lambda x: layer(x, key), query)
    by_key = gradient(lambda x: layer(query, x), key)
    np.testing.assert_array_equal(by_query[0], 0)
    np.testing.assert_array_equal(by_key[:, 0], 0)
    # d cos(q, k) / dq = (k / |k| - cos(q, k) q / |q|) / |q|
    for b, t, n in np.ndindex(B, T, N):
        expected = np.zeros(H)
        for s in range(S):
            q, k = query[b, t, n].astype("float64"), key[b, s, n].astype("float64")
            if q.any() and k.any():
                q_length, k_length = np.linalg.norm(q), np.linalg.norm(k)
                cosine = q @ k / q_length / k_length
                expected += (k / k_length - cosine * q / q_length) / q_length
        assert_close(by_query[b, t, n], expected)
