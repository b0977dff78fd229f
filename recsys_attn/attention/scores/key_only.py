"""A score of the key alone."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes, per_head
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import spread
from recsys_attn.blocks import activations
from recsys_attn.checks import require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("key_only")
class KeyOnly(Score):
    """`score = v^T act(W k + b)`, with v, W and b for each head; independent of the query.

    The importance of a key, the same for every query, as AFM's weight of a pair of fields. Several
    learned queries would get the same result, so `AttentionPooling` and MMoE's attention gate
    accept it for one query only; for more use `General` with tanh, which has a context vector per
    query.

    Source: Xiao et al., "Attentional Factorization Machines: Learning the Weight of Feature
    Interactions via Attention Networks", IJCAI 2017, arXiv 1708.04617.

    Args:
        units: Size of the hidden layer. Defaults to the size of the key.
        activation: Any Keras activation.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import KeyOnly
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 4))
    >>> tuple(KeyOnly(activation="tanh")(query, key).shape)
    (2, 1, 3, 5)
    """

    uses_query = False

    def __init__(self, units: int | None = None, activation: Any = "relu", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if units is not None:
            require_positive("units", units)
        self.units = units
        self.activation = activations.serialize(activation)
        if self.activation == "dice":
            raise ValueError(
                "`activation` must be one of Keras': the statistics of 'dice' would count padded "
                "keys. Received: activation='dice'"
            )
        self._activate = keras.activations.get(self.activation)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, _, key_size = head_sizes(query_shape, key_shape)
        units = self.units or key_size
        drawn = blockwise(heads, axis=0)
        self.kernel = self.add_weight(
            shape=(heads, key_size, units), initializer=drawn, name="kernel"
        )
        self.bias = self.add_weight(shape=(heads, units), initializer="zeros", name="bias")
        self.vector = self.add_weight(shape=(heads, 1, units), initializer=drawn, name="vector")

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        hidden = self._activate(per_head(key, self.kernel) + self.bias[:, None])  # (B, N, S, U)
        logits = ops.sum(hidden * self.vector, axis=-1)
        return spread(logits[:, :, None], query, key)
