"""Queries, keys and values of heads for tests of mechanisms.

All sizes are different primes. `QUERY` comes from elsewhere, `SELF` from the events themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.arrays import normal, numpy

B, T, S, N, H, V = 2, 3, 23, 5, 7, 11
QUERY, SELF, KEY, VALUE = normal((B, T, N, H), (B, S, N, H), (B, S, N, H), (B, S, N, V), seed=0)
QUERY_MASK = np.array([[True, False, True], [True, True, True]])
SELF_MASK, KEY_MASK = np.random.default_rng(1).random((2, B, S)) < 0.7
KEY_MASK[0, :4] = False  # nothing for the first causal queries, and a whole block of padding
EVERYTHING = np.ones((B, S), bool)
MASKS = {"query_mask": SELF_MASK, "key_mask": KEY_MASK}  # of `SELF`


def output_of(layer: Any, *inputs: Any, **arguments: Any) -> np.ndarray:
    """The output of a mechanism, without its weights; of `QUERY`, `KEY` and `VALUE` by default."""
    return numpy(layer(*(inputs or (QUERY, KEY, VALUE)), **arguments)[0])


def self_output(layer: Any, *inputs: Any, **arguments: Any) -> np.ndarray:
    """The output of a mechanism, of `SELF`, `KEY` and `VALUE` by default."""
    return output_of(layer, *(inputs or (SELF, KEY, VALUE)), **arguments)
