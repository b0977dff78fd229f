"""Patterns for tests, each with the loop that says what it allows."""

from __future__ import annotations

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
from tests.support.references import patterns as reference

# The second is no multiple of any block size below.
LENGTHS = (5, 13)
BIG_BIRD = Block(2, 1) | EdgeBlocks(2) | RandomBlocks(2, count=1)
SINGLE: dict[str, tuple[Pattern, reference.Rule]] = {
    "full": (Full(), reference.full()),
    "causal": (Causal(), reference.causal()),
    "local": (Local(2), reference.local(2, 2)),
    "local to one side": (Local(1, 3), reference.local(1, 3)),
    "local and causal": (Local(3, 0), reference.local(3, 0)),
    "local ahead": (Local(0, 2), reference.local(0, 2)),
    "dilated": (Dilated(2, 3), reference.dilated(2, 3)),
    "strided": (Strided(3), reference.strided(3)),
    "fixed": (Fixed(4, 2), reference.fixed(4, 2)),
    "block": (Block(3), reference.block(3)),
    "block of one": (Block(1, 2, 0), reference.block(1, 2, 0)),
    "block band": (Block(2, 1), reference.block(2, 1, 1)),
    "blocks before": (Block(3, 2, 0), reference.block(3, 2, 0)),
    "edge blocks": (EdgeBlocks(3), reference.edge_blocks(3, 1)),
    "two edge blocks": (EdgeBlocks(2, 2), reference.edge_blocks(2, 2)),
    "global": (Global((1, -2)), reference.at_positions((1, -2))),
    "prefix": (Prefix(3), reference.prefix(3)),
    "prepended": (Prepended(2, Block(2)), reference.prepended(2, reference.block(2))),
    "prepended with a length": (
        Prepended(1, Global((-1,))),
        reference.prepended(1, reference.at_positions((-1,))),
    ),
    "random blocks": (RandomBlocks(3, 2, seed=5), reference.random_blocks(3, 2, 5)),
    "all random blocks": (RandomBlocks(4, 7), reference.full()),
    "sparse, strided": (
        (Local(3, 0) | Strided(3)) & Causal(),
        lambda t, s, n: t - 3 <= s <= t or (s <= t and (t - s) % 3 == 0),
    ),
    "sparse, fixed": (
        (Block(4) | Fixed(4, 1)) & Causal(),
        lambda t, s, n: s <= t and (s // 4 == t // 4 or s % 4 == 3),
    ),
    "longformer": (
        Local(1) | Global((0,)),
        lambda t, s, n: abs(t - s) <= 1 or t == 0 or s == 0,
    ),
    "none": (~Full(), lambda t, s, n: False),
}
PER_HEAD = PerHead((BIG_BIRD, Fixed(3, 1)))
ALL = {**{name: pattern for name, (pattern, _) in SINGLE.items()}, "per head": PER_HEAD}
