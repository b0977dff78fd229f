"""The state after a whole history is that of its events one by one."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, Linear, MultiHeadAttention, Recurrence, presets
from recsys_attn.attention.layers.prefill import state_after
from recsys_attn.attention.mechanisms.routed import Routed
from recsys_attn.attention.patterns import Local
from recsys_attn.attention.routers import Blocks
from recsys_attn.blocks import (
    ConvolutionMixer,
    RecurrentMixer,
    SegmentMemory,
    TransformerBlock,
    TransformerEncoder,
)
from tests.support.arrays import assert_close, numpy
from tests.support.layer_case import randomise

B, S, E, LENGTH = 3, 7, 5, 11
X = np.random.default_rng(0).normal(size=(B, S, E)).astype("float32")
COUNTS = np.array([7, 3, 0])
PRESENT = np.arange(S) < COUNTS[:, None]
MECHANISMS: dict[str, Any] = {
    "rotary": Dense("rotary", "causal"),
    "window": Dense(pattern=Local(2, 0)),
    "blocks": Routed(Blocks(2, before=1), "dot", "causal"),
    "linear": Linear(causal=True),
    "segments": presets.transformer_xl(4),
}
MIXERS: dict[str, Any] = {
    "gru": lambda: RecurrentMixer("gru"),
    "convolution": lambda: ConvolutionMixer(3, causal=True),
}


def _encoder(name: str) -> Any:
    blocks = [
        TransformerBlock(
            MIXERS[name]()
            if name in MIXERS
            else MultiHeadAttention(2, 4, presets.fresh(MECHANISMS[name]))
        )
        for _ in range(2)
    ]
    made: Any = TransformerEncoder(blocks)
    made = SegmentMemory(made, memory=3, segment=2) if name == "segments" else made
    made(X)
    randomise(made)
    return made


@pytest.mark.sampled(6)
@pytest.mark.parametrize("length", [LENGTH, S - 2])
@pytest.mark.parametrize("name", [*MECHANISMS, *MIXERS])
def test_the_state_goes_on_as_after_single_steps(name: str, length: int) -> None:
    """Also where the cache is shorter than the history: of the first block it is the same."""
    encoder = _encoder(name)
    recurrence = Recurrence(encoder)
    outputs, state = state_after(recurrence, X, PRESENT, length)
    assert_close(outputs, encoder(X, present=PRESENT))
    expected = recurrence.initial_state(B, length)
    for t in range(S):
        _, expected = recurrence.step(expected, X[:, t : t + 1], PRESENT[:, t])
    compared = slice(None) if length == LENGTH else slice(1)
    found, wanted = (keras.tree.flatten(each[compared]) for each in (state, expected))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert_close(one, other)
    if length == LENGTH:
        event = X[:, :1] + 1
        assert_close(recurrence.step(state, event)[0], recurrence.step(expected, event)[0])
    assert np.isfinite(numpy(outputs)).all()
