"""A pattern that reaches beyond a router's blocks is refused; within them it equals `Dense`."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.attention import Dense
from recsys_attn.attention.mechanisms import Lookup, Routed
from recsys_attn.attention.patterns import (
    Block,
    Causal,
    Dilated,
    EdgeBlocks,
    Fixed,
    Full,
    Global,
    Local,
    Pattern,
    PerHead,
    Prefix,
    Prepended,
    RandomBlocks,
    Strided,
)
from recsys_attn.attention.routers import Blocks
from tests.support.arrays import assert_close

B, S, N, H = 2, 23, 2, 5
EVENTS = np.random.default_rng(0).normal(size=(B, S, N, H)).astype("float32")
BEYOND = [
    (Blocks(4), Local(5)),
    (Blocks(4, after=0), Local(3)),
    (Blocks(4), Strided(6)),
    (Blocks(4), Dilated(3, 2)),
    (Blocks(4), Block(4) | Fixed(4, 1)),
    (Blocks(4), Local(3) | Global((0,))),
    (Blocks(4, first=1), Local(3) | Global((9,))),
    (Blocks(4, first=1), Global((1000,))),
    (Blocks(4, last=1), Global((-2,))),
    (Blocks(4, first=1), EdgeBlocks(4)),
    (Blocks(4, random=2, seed=1), RandomBlocks(4, 2, seed=0)),
    (Blocks(4, tokens=(0,)), Local(3) | Global((-1,))),
    (Blocks(4), Prepended(1, Block(4))),
    (Blocks(4), ~Local(3)),
    (Blocks(4), PerHead((Causal(), Local(9)))),
]
WITHIN = [
    (Blocks(4), Local(4)),
    (Blocks(4, after=0), Local(4, 0)),
    (Blocks(8), Dilated(4, 2)),
    (Blocks(4), Local(3) & Strided(2)),
    (Blocks(4), Block(4, 1) & ~Local(2)),
    (Blocks(4), PerHead((Local(1), Local(3)))),
    (Blocks(4, first=1), Local(3) | Global((0,))),
    (Blocks(4, last=1), Local(3) | Global((-1,))),
    (Blocks(4, tokens=(-2, 9)), Local(3) | Global((9,))),
    (Blocks(4, first=1, last=1), EdgeBlocks(4) | Block(4, 1)),
    (Blocks(4, random=2, seed=1), RandomBlocks(4, 2, seed=1) | Block(4)),
]


@pytest.mark.parametrize(("router", "pattern"), BEYOND, ids=lambda x: repr(x)[:40])
def test_a_pattern_beyond_the_blocks_is_refused(router: Blocks, pattern: Pattern) -> None:
    for mechanism in (Routed, Lookup):
        with pytest.raises(ValueError, match="reaches beyond the blocks of the router"):
            mechanism(router, pattern=pattern)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("router", "pattern"), WITHIN, ids=lambda x: repr(x)[:40])
def test_a_pattern_within_the_blocks_is_that_of_dense(router: Blocks, pattern: Pattern) -> None:
    routed, _ = Routed(router, pattern=pattern)(EVENTS, EVENTS, EVENTS)
    dense, _ = Dense(pattern=pattern)(EVENTS, EVENTS, EVENTS)
    assert_close(routed, dense)


@pytest.mark.parametrize("pattern", [Causal(), Full(), Prefix(3)], ids=repr)
def test_a_pattern_that_only_hides_the_future_filters_the_blocks(pattern: Pattern) -> None:
    routed, _ = Routed(Blocks(4), pattern=pattern)(EVENTS, EVENTS, EVENTS)
    dense, _ = Dense(pattern=Block(4, 1) & pattern)(EVENTS, EVENTS, EVENTS)
    assert_close(routed, dense)
