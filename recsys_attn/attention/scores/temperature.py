"""A learned temperature of each head."""

from __future__ import annotations

import math
from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes
from recsys_attn.attention.scores.base import SCORES
from recsys_attn.attention.scores.wrapper import Wrapper
from recsys_attn.checks import require_number
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("temperature")
class Temperature(Wrapper):
    """`score = score / max(exp(c_n), least)`, with a learned c of each head n.

    Some heads become sharp and others stay broad. `Temperature("cosine", 0.1)` is Swin V2's scaled
    cosine attention; around a dot product the temperature is a shortcut for what the projections
    could learn too.

    Source: Liu et al., "Swin Transformer V2: Scaling Up Capacity and Resolution", CVPR 2022,
    arXiv 2111.09883.

    Args:
        score: The score inside: an instance, a name or a config. Defaults to `"scaled_dot"`.
        initial: The first temperature of every head. Defaults to 1; use 0.1 for cosines.
        least: The lowest temperature. Defaults to 0.01.

    Call arguments:
        query, key, allowed, query_positions, key_positions: See `Score`.

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Temperature
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> tuple(Temperature("cosine", initial=0.1)(history, history).shape)
    (2, 4, 5, 5)
    """

    def __init__(
        self, score: Any = "scaled_dot", initial: float = 1.0, least: float = 0.01, **kwargs: Any
    ) -> None:
        super().__init__(score, **kwargs)
        require_number("least", least, above=0)
        require_number("initial", initial, least=least)
        self.initial = initial
        self.least = least

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, _, _ = head_sizes(query_shape, key_shape)
        self.log_temperature = self.add_weight(
            shape=(heads,),
            initializer=lambda shape, dtype=None: ops.full(shape, math.log(self.initial), dtype),
            name="log_temperature",
            autocast=False,
        )
        super().build(query_shape, key_shape)

    def changed(self, logits: Tensor) -> Tensor:
        temperature = ops.maximum(ops.exp(self.log_temperature), self.least)
        return logits * ops.cast(1 / temperature, logits.dtype)[:, None, None]
