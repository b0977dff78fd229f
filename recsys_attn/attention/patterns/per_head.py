"""A different pattern for each head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from recsys_attn.attention.patterns.base import (
    PATTERNS,
    Pattern,
    furthest,
    get_all,
    set_field,
)
from recsys_attn.attention.patterns.window import Full
from recsys_attn.tensors import Tensor


@PATTERNS.register("per_head")
@dataclass(frozen=True)
class PerHead(Pattern):
    """One pattern per head, such as a near one, a far one and all keys.

    Source: Child, Gray, Radford and Sutskever, "Generating Long Sequences with Sparse
    Transformers", 2019, arXiv 1904.10509.

    Args:
        patterns: One for each head: instances, names or configs of
            `recsys_attn.attention.patterns`.

    Example:

    >>> from recsys_attn.attention.patterns import Causal, Local, PerHead
    >>> print(PerHead((Local(1), Causal())).matrix(3).astype(int))
    [[[1 1 0]
      [1 1 1]
      [0 1 1]]
    <BLANKLINE>
     [[1 0 0]
      [1 1 0]
      [1 1 1]]]
    """

    patterns: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        set_field(self, "patterns", get_all(self.patterns))
        for pattern in self.patterns:
            if pattern.heads is not None:
                raise ValueError(
                    "A pattern of `PerHead` is that of one head and holds no `PerHead` itself. "
                    f"Received: {pattern!r}"
                )

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        allowed = []
        for head, pattern in enumerate(self.patterns):
            row, column, count = (_of_head(x, head) for x in (rows, columns, length))
            # A pattern may omit an axis that it does not use; here all need the same axes.
            every_pair = Full()(row, column, count)
            allowed.append(ops.logical_and(every_pair, pattern(row, column, count)))
        return ops.concatenate(allowed, axis=1)

    @property
    def is_causal(self) -> bool:
        return all(pattern.is_causal for pattern in self.patterns)

    @property
    def reach(self) -> int | None:
        return furthest(self.patterns)

    @property
    def hides_future(self) -> bool:
        return any(pattern.hides_future for pattern in self.patterns)

    @property
    def depends_on_length(self) -> bool:
        return any(pattern.depends_on_length for pattern in self.patterns)

    @property
    def heads(self) -> int:
        return len(self.patterns)

    def take_heads(self, keep: Sequence[int]) -> Pattern:
        return PerHead(tuple(self.patterns[head] for head in keep))


def _of_head(x: Any, head: int) -> Any:
    shared = np.ndim(x) < 2 or x.shape[1] == 1  # a length may be an integer
    return x if shared else x[:, head : head + 1]
