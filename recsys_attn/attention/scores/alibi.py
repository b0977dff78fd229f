"""ALiBi: a penalty for distance."""

from __future__ import annotations

import numpy as np
from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import distances, spread
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("alibi")
class Alibi(Score):
    """`score = -m |i - j|` for a query at i and a key at j, with a fixed slope m of each head.

    `m_n = 2^(-8 n / N)` for the heads n = 1 ... N if N is a power of two. Otherwise the slopes of
    the next smaller power of two come first, then every second slope of the next larger one.

    Source: Press et al., "Train Short, Test Long: Attention with Linear Biases Enables Input
    Length Extrapolation", ICLR 2022, arXiv 2108.12409.

    Call arguments:
        query, key, allowed, query_positions, key_positions: See `Score`.

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Alibi, Dot
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> tuple((Dot(scale=True) + Alibi())(history, history).shape)
    (2, 4, 5, 5)
    """

    positional = True
    uses_query = False
    uses_key = False

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, _, _ = head_sizes(query_shape, key_shape)
        slopes = np.array(_slopes(int(heads)), dtype="float32")
        # A weight, so that heads keep their slopes when others are pruned.
        self.slopes = self.add_weight(
            shape=(heads,),
            initializer=lambda shape, dtype=None: ops.convert_to_tensor(slopes, dtype),
            trainable=False,
            dtype="float32",
            name="slopes",
            autocast=False,
        )

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        distance = ops.abs(distances(query, key, query_positions, key_positions))
        logits = -self.slopes[:, None, None] * ops.cast(distance, "float32")
        return spread(ops.cast(logits, self.compute_dtype), query, key)


def _slopes(heads: int) -> list[float]:
    power = 1 << (heads.bit_length() - 1)  # the power of two at or below
    slopes = [2 ** (-8 * n / power) for n in range(1, power + 1)]
    return slopes if heads == power else slopes + _slopes(2 * power)[::2][: heads - power]
