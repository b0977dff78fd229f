"""BST's sequence of events and candidate against its equations."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention
from recsys_attn.blocks import RecurrentMixer, TransformerBlock, TransformerEncoder
from recsys_attn.models.target_sequence import TargetSequence
from tests.support.arrays import assert_close
from tests.support.references.histories import post_norm_block, randomise

B, T, S, K, P, LENGTH, HEADS = 4, 2, 7, 5, 3, 4, 2
SECONDS = np.array([0, 1, 3, 60, 4000, 10**6, 10**9])


def made(by_time: bool) -> TargetSequence:
    block = TransformerBlock(
        MultiHeadAttention(HEADS, 3), 11, activation="leaky_relu", placement="post"
    )
    layer = TargetSequence(TransformerEncoder([block]), LENGTH, P, by_time)
    layer.build((B, T, K), (B, S, K))
    randomise(layer)
    return layer


def leaky(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, 0.2 * x)


@pytest.mark.parametrize("by_time", [False, True])
def test_equals_a_block_over_events_and_candidate(by_time: bool) -> None:
    """Too many events, some, with missing ones between, one, and none; a padded candidate."""
    rng = np.random.default_rng(0)
    events = rng.normal(size=(B, S, K)).astype("float32")
    query = rng.normal(size=(B, T, K)).astype("float32")
    present = np.array([[1] * S, [0, 1, 0, 1, 1, 0, 0], [0] * 6 + [1], [0] * S], bool)
    real = np.array([[True, True], [True, True], [False, True], [True, True]])
    times = -np.sort(rng.choice(SECONDS, size=(B, S)), axis=1)[:, ::-1]
    layer = made(by_time)
    table = np.asarray(layer.positions, "float64")
    output = np.zeros((B, T, LENGTH + 1, K + P))
    weights = np.zeros((B, HEADS, T, S))
    for b, t in np.argwhere(real):
        here = np.flatnonzero(present[b])[-LENGTH:]
        x = np.concatenate([events[b, here], query[b, t][None]]).astype("float64")
        ages = np.append(-times[b, here], 0)
        buckets = np.floor(np.log(np.maximum(ages, 1))).astype(int).clip(max=19)
        places = buckets if by_time else np.arange(LENGTH - len(here), LENGTH + 1)
        x = np.concatenate([x, table[places]], axis=1)
        encoded, shares = post_norm_block(layer.encoder.blocks[0], x, leaky)
        output[b, t, LENGTH - len(here) :] = encoded
        weights[b, :, t, here] = shares[:, -1, :-1].T
    given = {"times": times} if by_time else {}
    found = layer(query, events, present, query_mask=real, return_weights=True, **given)
    for value, expected in zip(found, (output.reshape(B, T, -1), weights), strict=True):
        assert_close(value, expected)


def test_an_encoder_without_attention_is_refused() -> None:
    for encoder in (RecurrentMixer(), TransformerEncoder([TransformerBlock(RecurrentMixer())])):
        with pytest.raises(TypeError, match="`encoder` must be a TransformerEncoder with att"):
            TargetSequence(encoder, LENGTH, P)
