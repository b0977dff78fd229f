"""Reformer's score: one projection, and an event attends itself only if alone."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from recsys_attn.attention import scores
from tests.support.arrays import normal
from tests.support.rounding import ULPS
from tests.support.score_case import B, H, N, S


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_event_attends_itself_only_if_alone(policy: str) -> None:
    (x,) = normal((B, S, N, H))
    allowed = np.broadcast_to(np.tri(S, dtype=bool), (B, N, S, S))
    score = scores.SharedDot(dtype=policy)
    assert score.shares_query_and_key
    logits = keras.ops.cast(score(x, x), "float32")
    weights = np.asarray(keras.layers.Softmax()(logits, mask=allowed))
    np.testing.assert_allclose(weights[:, :, 0, 0], 1, rtol=ULPS)
    np.testing.assert_array_equal(np.diagonal(weights, axis1=2, axis2=3)[..., 1:], 0)


def test_without_a_penalty_an_event_is_most_like_itself() -> None:
    (x,) = normal((B, S, N, H))
    unit = x / np.linalg.norm(x, axis=-1, keepdims=True)
    logits = np.asarray(scores.SharedDot(self_penalty=0)(unit, x))
    np.testing.assert_array_equal(logits.argmax(-1), np.broadcast_to(np.arange(S), (B, N, S)))
