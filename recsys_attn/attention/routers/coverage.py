"""Checks that the groups of a router cover a pattern."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from keras import ops

from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.tensors import Config

_SAMPLE = 33  # blocks between the ends


def require_covered(pattern: Pattern, meeting: Pattern, size: int, blocks: int) -> None:
    """Raises if a pattern allows pairs that are never in one group.

    A pattern that only hides the future, such as `Causal`, fits every router.

    Args:
        pattern: The pattern of a mechanism.
        meeting: The pairs inside the groups of the router, as a pattern.
        size: Number of positions in a block of the router.
        blocks: Number of blocks in one group, the own block included.

    Raises:
        ValueError: The pattern reaches beyond the router.
    """
    # Long enough for the effect of every number in the pattern, on both sides of a row.
    reach = max((abs(number) for number in _numbers(pattern.get_config())), default=0)
    length = size * (2 * blocks + 3) + 2 * reach + 1
    # Patterns repeat from block to block, except at the ends.
    count = -(-length // size)
    sample = np.linspace(0, count - 1, _SAMPLE).astype(int)
    ends = np.arange(blocks + 1)
    starts = size * np.unique(np.concatenate([sample, ends, count - 1 - ends]))
    rows = np.unique(np.concatenate([starts, starts - 1, starts + size // 2, [length - 1]]))
    rows = rows[(rows >= 0) & (rows < length)]
    wanted, meeting_pairs = (_matrix(relation, rows, length) for relation in (pattern, meeting))
    wanted, meeting_pairs = np.broadcast_arrays(wanted, meeting_pairs)
    causal = np.arange(length) <= rows[:, None]
    for head, pairs in zip(wanted, meeting_pairs, strict=True):
        cut = head & ~pairs
        if cut.any() and not (head | ~causal).all():
            row, column = np.argwhere(cut)[0]
            raise ValueError(
                "`pattern` reaches beyond the blocks of the router, which would cut it: of "
                f"{length} positions it lets {rows[row]} attend {column}, and they do not meet. "
                "Give the router larger or more blocks (`size`, `before`, `after`, `first`, "
                "`last`), or use the mechanism Dense. "
                f"Received: pattern={pattern!r}"
            )


def _matrix(pattern: Pattern, rows: np.ndarray, length: int) -> np.ndarray:
    """(N or 1, rows, length)."""
    index = np.arange(length, dtype="int32")[None, None, None]
    allowed = pattern(rows.astype("int32")[None, None, :, None], index, length)
    shape = (1, pattern.heads or 1, len(rows), length)
    return np.broadcast_to(ops.convert_to_numpy(allowed), shape)[0]


def _numbers(config: Config | Any) -> Iterator[int]:
    if isinstance(config, dict):
        config = [value for key, value in config.items() if key != "seed"]
    if isinstance(config, list | tuple):
        for value in config:
            yield from _numbers(value)
    elif isinstance(config, Integral) and not isinstance(config, bool):
        yield int(config)
