"""DIN's activation unit equals a network on `[q, k, q - k, q * k]` of every pair."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.attention import scores
from tests.support import reference
from tests.support.arrays import assert_close, normal, weights_of
from tests.support.score_case import B, H, N, S, T, vectors


@pytest.mark.parametrize("batches", [(B, B), (1, B), (B, 1)], ids=str)
@pytest.mark.parametrize("units", [(4,), (6, 4)], ids=str)
def test_mlp_equals_a_network_on_concatenated_blocks(
    units: tuple[int, ...], batches: tuple[int, int]
) -> None:
    query, key = normal((batches[0], T, N, H), (batches[1], S, N, H))
    layer = scores.Mlp(units, activation="relu")
    logits = layer(query, key)
    both = [np.repeat(x, B // len(x), axis=0).astype("float64") for x in (query, key)]
    assert_close(logits, reference.activation_unit(*both, weights_of(layer)))


def test_mlp_blocks_start_as_one_glorot_kernel() -> None:
    query, key = normal((B, T, 1, 64), (B, S, 1, 64))
    layer = scores.Mlp((80,))
    layer(query, key)
    blocks = np.split(weights_of(layer)[0], 4)
    limit = np.sqrt(6 / (4 * 64 + 80))
    for block in blocks:
        assert 0.97 * limit < np.abs(block).max() <= limit
    assert not np.allclose(blocks[0], blocks[1])


def test_hidden_pairs_stay_out_of_the_statistics_of_dice() -> None:
    query, key = vectors()
    allowed = np.random.default_rng(5).random((B, 1, T, S)) < 0.5
    layer = scores.Mlp((4,))
    layer(query, key, allowed=allowed, training=True)
    kernel, bias, *_ = weights_of(layer)
    hidden = reference.activation_unit_inputs(query, key) @ kernel + bias
    mean, variance = reference.statistics(hidden, np.broadcast_to(allowed, hidden.shape[:-1]))
    assert_close(layer.first_activation.moving_mean, 0.01 * mean, atol=1e-6)
    assert_close(layer.first_activation.moving_variance, 0.99 + 0.01 * variance, rtol=1e-5)
