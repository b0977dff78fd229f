"""Blocks equal loops, and `Dense` with a pattern that lies inside them."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention, dense_weights, patterns, prune_heads
from recsys_attn.attention.mechanisms import Dense, Lookup, Routed
from recsys_attn.attention.patterns import random_plan
from recsys_attn.attention.routers import Blocks
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.heads import KEY, MASKS, VALUE, B, N, S
from tests.support.heads import SELF as QUERY
from tests.support.heads import self_output as output_of
from tests.support.references import routers as loops

RNG = np.random.default_rng(0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "options",
    [
        {"before": 0, "after": 0},
        {"before": 2, "after": 1},
        {"before": 1, "after": 0, "first": 2},
        {"before": 0, "after": 2, "last": 1},
        {"first": 1, "last": 1, "random": 3, "seed": 5},
        {"first": 4, "last": 5, "random": 9},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [4, 23, 64])
def test_blocks_equal_loops(size: int, options: dict[str, int]) -> None:
    router = Blocks(size, **options)
    count = -(-S // size)
    plan = np.asarray(random_plan(np.arange(count), count, router.random, router.seed))
    pairs = loops.block_pairs(S, size, router.before, router.after, router.first, router.last, plan)
    allowed = pairs & MASKS["query_mask"][:, None, :, None] & MASKS["key_mask"][:, None, None]
    allowed = np.broadcast_to(allowed, (B, N, S, S))
    expected = loops.attended(reference.dot(QUERY, KEY, scale=True), allowed, VALUE)
    assert_close(output_of(Routed(router), **MASKS), expected)


ANYWHERE = (-1, 9, -S, 0, -5, 9, 99, -99, S - 1)  # some are the same or nowhere
THREE = (-9, 2, 22)
FIRST = patterns.Global((0, 1, 2, 3))
BIG_BIRD = patterns.Block(4, 1) | patterns.EdgeBlocks(4) | patterns.RandomBlocks(4, 2, seed=3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("router", "pattern"),
    [
        (Blocks(4), patterns.Local(4)),
        (Blocks(4, 2, 0), patterns.Local(8) & patterns.Causal()),
        (Blocks(4, 6, 0), patterns.Causal()),
        (Blocks(4, first=1), patterns.Local(4) | patterns.Global((0, 2))),
        (Blocks(4, 1, 0, first=1), (patterns.Block(4, 1) | FIRST) & patterns.Causal()),
        (Blocks(4, tokens=(0, 2)), patterns.Local(4) | patterns.Global((0, 2))),
        (Blocks(4, tokens=(-1,)), patterns.Local(4) | patterns.Global((-1,))),
        (Blocks(4, tokens=ANYWHERE), patterns.Local(4) | patterns.Global(ANYWHERE)),
        (
            Blocks(4, first=1, last=1, tokens=(-9, 2, 22)),
            patterns.Local(4) | patterns.Global((-9, 2, 22)),
        ),
        (
            Blocks(4, 1, 0, tokens=(3, 7)),
            (patterns.Local(4) | patterns.Global((3, 7))) & patterns.Causal(),
        ),
    ],
    ids=[
        "local",
        "causal local",
        "causal",
        "longformer",
        "causal with a first block",
        "tokens at the start",
        "last token",
        "tokens anywhere",
        "tokens and edges",
        "causal tokens",
    ],
)
def test_blocks_equal_dense_with_a_pattern_inside_them(
    router: Blocks, pattern: patterns.Pattern
) -> None:
    assert_close(
        output_of(Routed(router, pattern=pattern), **MASKS),
        output_of(Dense(pattern=pattern), **MASKS),
    )


def test_blocks_with_edges_and_random_ones_are_big_bird() -> None:
    router = Blocks(4, first=1, last=1, random=2, seed=3)
    assert_close(output_of(Routed(router)), output_of(Dense(pattern=BIG_BIRD)))
    for length in (0, 3, 8, 13, 19):  # queries may come after the last key that is there
        mask = np.broadcast_to(np.arange(S) < length, (B, S))
        assert_close(
            output_of(Routed(router), key_mask=mask),
            output_of(Dense(pattern=BIG_BIRD), key_mask=mask),
        )


SEEDS = (3, 1, 4, 1, 5)
A_PLAN_A_HEAD = patterns.PerHead(
    tuple(
        patterns.Block(4, 1) | patterns.EdgeBlocks(4) | patterns.RandomBlocks(4, 2, seed=seed)
        for seed in SEEDS
    )
)


@pytest.mark.thorough
def test_each_head_has_a_plan_of_its_own() -> None:
    router = Blocks(4, first=1, last=1, random=2, seed=SEEDS)
    for length in (S, 13, 3):
        mask = np.broadcast_to(np.arange(S) < length, (B, S))
        expected = output_of(Dense(pattern=A_PLAN_A_HEAD), key_mask=mask)
        assert_close(output_of(Routed(router), key_mask=mask), expected)
        rows = {"query_positions": np.full((B, S), 9), "key_mask": mask}
        found = output_of(Lookup(router, pattern=A_PLAN_A_HEAD), **rows)
        assert_close(found, output_of(Dense(pattern=A_PLAN_A_HEAD), **rows))
    with_token = Blocks(4, first=1, last=1, random=2, seed=SEEDS, tokens=(9, -3))
    pattern = A_PLAN_A_HEAD | patterns.Global((9, -3))
    assert_close(output_of(Routed(with_token, pattern=pattern)), output_of(Dense(pattern=pattern)))
    output, weights = Routed(with_token)(QUERY, KEY, VALUE, return_weights=True)
    dense = np.asarray(dense_weights(weights, S, S))
    assert_close(output, np.einsum("bnts,bsnv->btnv", dense, VALUE))


def test_heads_keep_their_plans_when_others_are_cut_out() -> None:
    layer = MultiHeadAttention(3, 4, Routed(Blocks(4, 0, 0, random=1, seed=[7, 8, 9])))
    layer(QUERY[:, :, 0])
    kept = prune_heads(layer, keep=[0, 2]).mechanism.router
    assert kept.seed == (7, 9)
    with pytest.raises(ValueError, match="`seed` must be one integer or a list of 3"):
        MultiHeadAttention(3, 4, Routed(Blocks(4, seed=[7, 8])))(QUERY[:, :, 0])


def test_each_head_may_have_its_own_pattern() -> None:
    pattern = patterns.PerHead(
        (
            patterns.Local(1),
            patterns.Local(3),
            patterns.Causal(),
            patterns.Full(),
            patterns.Local(2),
        )
    )
    assert_close(
        output_of(Routed(Blocks(6, 3, 3), pattern=pattern)), output_of(Dense(pattern=pattern))
    )
    with pytest.raises(ValueError, match="made for 5 heads"):
        Routed(Blocks(4), pattern=pattern)(QUERY[:, :, :2], KEY[:, :, :2], VALUE[:, :, :2])
