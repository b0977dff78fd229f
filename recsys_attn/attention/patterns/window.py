"""Patterns of distance: the past, a window, every so many steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.tensors import Tensor


@keras.saving.register_keras_serializable(package="recsys_attn", name="patterns.Causal")
@dataclass(frozen=True)
class Causal(Pattern):
    """Keys up to the query and the query itself: `s <= t`.

    Source: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.patterns import Causal
    >>> rows, columns = np.arange(2).reshape(1, 1, 2, 1), np.arange(3).reshape(1, 1, 1, 3)
    >>> Causal()(rows, columns, 3)[0, 0].tolist()
    [[True, False, False], [True, True, False]]
    """

    def __call__(self, rows: Tensor, columns: Tensor, length: Any) -> Tensor:
        return columns <= rows

    @property
    def is_causal(self) -> bool:
        return True
