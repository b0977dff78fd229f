"""Rotary scores depend on distances alone, in both layouts of the channels."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.attention import scores
from tests.support.arrays import assert_close, normal
from tests.support.score_case import B, N, S, T, positions, vectors


@pytest.mark.parametrize("interleaved", [False, True], ids=["half-split", "interleaved"])
def test_logits_depend_on_distances_not_positions(interleaved: bool) -> None:
    query, key = vectors()
    score = scores.Rotary("dot", interleaved=interleaved)
    rows, columns = positions((B, N, T), (B, N, S))
    logits = score(query, key, None, rows, columns)
    moved = score(query, key, None, rows + 100, columns + 100)
    assert_close(moved, logits, rtol=1e-3, atol=1e-4)
    assert_close(score(query, key, None, 0 * rows, 0 * columns), scores.Dot()(query, key))


def test_layouts_differ_by_the_order_of_the_channels() -> None:
    query, key = normal((B, T, N, 6), (B, S, N, 6))
    order = [0, 3, 1, 4, 2, 5]
    interleaved = scores.Rotary("dot", interleaved=True)(query[..., order], key[..., order])
    assert_close(interleaved, scores.Rotary("dot")(query, key))


def test_far_positions_are_exact_in_half_precision() -> None:
    query, key = vectors()
    far = [place + 1000 for place in positions((B, N, T), (B, N, S))]
    exact = np.asarray(scores.Rotary("dot")(query, key, None, *far))
    half = scores.Rotary("dot", dtype="mixed_bfloat16")(query, key, None, *far)
    assert_close(half, exact, rtol=1e-7, atol=0.05 * np.abs(exact).max())
