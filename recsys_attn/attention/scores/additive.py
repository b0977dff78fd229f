"""The additive score."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes, per_head
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.checks import require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("additive")
class Additive(Score):
    """`score = v^T tanh(W_q q + W_k k)`, with v, W_q and W_k for each head.

    This is `v^T tanh(W [q; k])` ("concat"), computed with one half of W per query and the other
    half per key. Queries and keys may have different sizes.

    Source: Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and
    Translate", ICLR 2015, arXiv 1409.0473.

    Args:
        units: Size of the hidden layer. Defaults to the size of the key.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Additive
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 4))
    >>> tuple(Additive(units=16)(query, key).shape)
    (2, 1, 3, 5)
    """

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if units is not None:
            require_positive("units", units)
        self.units = units

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, query_size, key_size = head_sizes(query_shape, key_shape)
        units = self.units or key_size

        def weight(name: str, *shape: int) -> Tensor:
            return self.add_weight(
                shape=(heads, *shape), initializer=blockwise(heads, axis=0), name=name
            )

        self.query_kernel = weight("query_kernel", query_size, units)
        self.key_kernel = weight("key_kernel", key_size, units)
        self.vector = weight("vector", 1, 1, units)

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        queries = per_head(query, self.query_kernel)  # (B, N, T, U)
        keys = per_head(key, self.key_kernel)  # (B, N, S, U)
        hidden = ops.tanh(ops.expand_dims(queries, 3) + ops.expand_dims(keys, 2))
        return ops.sum(hidden * self.vector, axis=-1)
