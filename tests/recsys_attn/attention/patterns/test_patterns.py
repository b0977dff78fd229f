"""Patterns equal loops over pairs, combine as sets do, and differ by head."""

from __future__ import annotations

import keras
import numpy as np
import pytest

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
from tests.support.patterns import ALL, BIG_BIRD, LENGTHS, PER_HEAD, SINGLE
from tests.support.references import patterns as reference

# Patterns that say they are causal; of the others none is, but by chance at one length.
CAUSAL = {
    "causal",
    "local and causal",
    "block of one",
    "sparse, strided",
    "sparse, fixed",
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("pattern", "rule"), SINGLE.values(), ids=SINGLE)
def test_a_pattern_equals_a_loop_over_pairs(
    pattern: Pattern, rule: reference.Rule, length: int
) -> None:
    np.testing.assert_array_equal(pattern.matrix(length), [reference.matrix(rule, length)])


@pytest.mark.parametrize(("name", "pattern"), ALL.items(), ids=ALL)
def test_a_pattern_that_says_so_is_causal(name: str, pattern: Pattern) -> None:
    ahead = max(np.triu(pattern.matrix(length), 1).any() for length in LENGTHS)
    assert pattern.is_causal == (name in CAUSAL)
    assert pattern.is_causal == (not ahead) or name == "none"


@pytest.mark.parametrize(
    ("pattern", "hides"),
    [
        *[(pattern, True) for name, pattern in ALL.items() if name in CAUSAL],
        (Prefix(2), True),
        (Prepended(1, Causal()), True),
        (PerHead((Causal(), Full())), True),
        (~(~Causal()), True),
        (Local(1, 0) | Global((0,)), True),
        (Prefix(2) & Block(2), True),
        (Prepended(1, Local(2)), False),
        (Local(1) | ~Strided(2), False),
        (Dilated(2, 3), False),
        (BIG_BIRD, False),
    ],
    ids=repr,
)
def test_a_pattern_that_is_causal_in_part_hides_the_future(pattern: Pattern, hides: bool) -> None:
    assert pattern.hides_future == hides


@pytest.mark.parametrize("first", [Local(1), Causal(), Strided(3), Global((0, -1))], ids=repr)
@pytest.mark.parametrize("second", [Causal(), Block(2), Fixed(3, 1), BIG_BIRD], ids=repr)
def test_patterns_combine_as_sets_of_pairs_do(first: Pattern, second: Pattern) -> None:
    one, other = first.matrix(7), second.matrix(7)
    expected = {
        first & second: one & other,
        first | second: one | other,
        ~first: ~one,
        ~(first & second): (~first | ~second).matrix(7),
        ~(first | second): (~first & ~second).matrix(7),
        first & ~first: np.zeros_like(one),
        first | ~first: np.ones_like(one),
    }
    for pattern, wanted in expected.items():
        np.testing.assert_array_equal(pattern.matrix(7), wanted)


@pytest.mark.parametrize(
    "pattern",
    [
        Local(6),
        Dilated(6, 1),
        Strided(1),
        Fixed(3, 3),
        Block(7),
        Block(2, 3),
        EdgeBlocks(2, 2),
        Prefix(7),
        Prepended(7, Causal()),
        RandomBlocks(2, 4),
        PerHead((Full(), Full())),
    ],
    ids=repr,
)
def test_in_the_limit_every_pair_is_allowed(pattern: Pattern) -> None:
    assert pattern.matrix(7).all()


def test_each_head_has_its_pattern() -> None:
    separate = [BIG_BIRD.matrix(9)[0], Fixed(3, 1).matrix(9)[0]]
    np.testing.assert_array_equal(PER_HEAD.matrix(9), separate)
    assert PER_HEAD.heads == 2
    np.testing.assert_array_equal(PER_HEAD.take_heads([1]).matrix(9), separate[1:])
    causal = Prepended(1, ~PER_HEAD) & Causal()
    assert causal.heads == 2
    assert (causal.is_causal, PER_HEAD.is_causal) == (True, False)
    assert PerHead((Causal(), Local(3, 0))).is_causal
    np.testing.assert_array_equal(causal.take_heads([1]).matrix(9), causal.matrix(9)[1:])
    assert causal.take_heads([1, 0]).take_heads([1]).heads == 1


def test_each_head_has_its_pattern_at_positions_of_its_own() -> None:
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 9, (3, 2, 5, 1)), rng.integers(0, 9, (1, 2, 1, 7))
    allowed = keras.ops.convert_to_numpy(PER_HEAD(rows, columns, 9))
    expected = PER_HEAD.matrix(9)
    assert allowed.shape == (3, 2, 5, 7)
    for b, n, t, s in np.ndindex(allowed.shape):
        assert allowed[b, n, t, s] == expected[n, rows[b, n, t, 0], columns[0, n, 0, s]]
