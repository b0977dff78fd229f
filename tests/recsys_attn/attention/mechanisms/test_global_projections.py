"""Longformer's second projections, against two dense attentions."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.attention import Attention, MultiHeadAttention, dense_weights, prune_heads
from recsys_attn.attention.mechanisms import Dense, Routed
from recsys_attn.attention.patterns import EdgeBlocks, Global, Local, Pattern
from recsys_attn.attention.routers import Blocks, Lsh
from recsys_attn.interactions import InteractingLayer, TargetAttention
from tests.support.arrays import assert_close, normal, numpy
from tests.support.heads import KEY, KEY_MASK, SELF, VALUE, B, H, N, S, V, output_of
from tests.support.refusals import refusals

FAR = normal((B, S, N, H), (B, S, N, H), (B, S, N, V), seed=5)
BOTH = [np.concatenate(pair, axis=-1) for pair in zip((SELF, KEY, VALUE), FAR, strict=True)]
MASKS = {"query_mask": KEY_MASK, "key_mask": KEY_MASK}
EVENTS = SELF[:, :, 0]
CASES: dict[str, tuple[Blocks, Pattern]] = {
    "tokens": (Blocks(4, tokens=(9, -1, 0)), Global((9, -1, 0))),
    "first block": (Blocks(4, first=1), Global((0, 1, 2, 3))),
    "both": (Blocks(4, first=1, last=1, tokens=(9,)), EdgeBlocks(4) | Global((9,))),
}


def is_global(pattern: Pattern) -> np.ndarray:
    """Which queries attend everything, by the number of events: (B, S)."""
    lengths = [np.flatnonzero(row)[-1] + 1 for row in KEY_MASK]
    place = np.arange(S, dtype="int32")
    rows, columns = place[None, None, :, None], place[None, None, None]
    found = [numpy(pattern(rows, columns, np.int32(n)))[0, 0].all(-1) for n in lengths]
    return np.array(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_global_queries_have_projections_of_their_own(name: str) -> None:
    router, pattern = CASES[name]
    layer = Routed(router, pattern=Local(4) | pattern, global_projections=True)
    near = output_of(Dense(pattern=Local(4) | pattern), SELF, KEY, VALUE, **MASKS)
    far = output_of(Dense(), *FAR, **MASKS)
    rows = is_global(pattern)
    assert rows.any()
    expected = np.where(rows[:, :, None, None], far, near)
    assert_close(output_of(layer, *BOTH, **MASKS), expected)
    weights = layer(*BOTH, return_weights=True, **MASKS)[1]
    dense = numpy(dense_weights(weights, S, S))
    shown = [np.einsum("bnts,bsnv->btnv", dense, value) for value in (FAR[2], VALUE)]
    assert_close(np.where(rows[:, :, None, None], *shown), expected)


def layer_of(second: bool) -> MultiHeadAttention:
    config = {"window": 3, "tokens": [0, -2], "global_projections": second}
    return MultiHeadAttention([4, 2], [5, 3], {"class_name": "longformer", "config": config})


def test_second_projections_start_as_the_first() -> None:
    one, two = layer_of(False), layer_of(True)
    one(EVENTS), two(EVENTS)
    for old, new in zip(one.weights, two.weights, strict=True):
        times = new.shape[-1] // old.shape[-1]
        assert times == (1 if "output" in new.path else 2)
        heads = {"query": 4, "key": 2, "value": 2}.get(new.path.split("/")[-1].split("_")[0], 1)
        halves = numpy(new).reshape(*old.shape[:-1], heads, times, -1)
        np.testing.assert_array_equal(halves[..., 0, :], halves[..., -1, :])
        old.assign(halves[..., 0, :].reshape(old.shape))
    assert_close(numpy(one(EVENTS, query_mask=KEY_MASK)), numpy(two(EVENTS, query_mask=KEY_MASK)))


def test_heads_are_cut_out_with_both_projections() -> None:
    layer = layer_of(True)
    layer(EVENTS)
    rng = np.random.default_rng(2)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    silent = numpy(layer._kernels["output"][0]).reshape(4, 3, -1)
    silent[[0, 3]] = 0
    layer._kernels["output"][0].assign(silent.reshape(12, -1))
    assert_close(numpy(prune_heads(layer, keep=[1, 2])(EVENTS)), numpy(layer(EVENTS)), rtol=1e-3)


def second() -> Routed:
    return Routed(Blocks(4, tokens=(0,)), global_projections=True)


test_wrong_use_is_refused = refusals(
    (lambda: Routed(Lsh(4), global_projections=True), "which this router does not have"),
    (lambda: Routed(Blocks(4), global_projections=True), "give Blocks `tokens`, `first` or `last`"),
    (lambda: Routed(Blocks(4, first=1), global_projections=1), "must be True or False"),
    (lambda: Attention(second()), "which Attention does not make. Use MultiHeadAttention"),
    (lambda: InteractingLayer(2, 4, second()), "which InteractingLayer does not make"),
    (lambda: TargetAttention(second(), 2, 4), "in cross-attention no query is a global token"),
    (
        lambda: MultiHeadAttention(2, 4, second(), value="identity"),
        "'identity' does not make",
    ),
)
