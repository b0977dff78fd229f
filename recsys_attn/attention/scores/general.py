"""The bilinear form."""

from __future__ import annotations

import keras
from keras import ops

from recsys_attn.attention.layout import batched_matmul, head_sizes, per_head
from recsys_attn.attention.scores.base import Score
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn", name="scores.General")
class General(Score):
    """`score = q^T W k`, with one matrix W a head. Queries and keys may differ in size.

    Source: Luong et al., "Effective Approaches to Attention-based Neural Machine Translation",
    EMNLP 2015, arXiv 1508.04025.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import General
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 4))
    >>> tuple(General()(query, key).shape)
    (2, 1, 3, 5)
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, query_size, key_size = head_sizes(query_shape, key_shape)
        self.kernel = self.add_weight(
            shape=(heads, query_size, key_size),
            initializer=blockwise(heads, axis=0),
            name="kernel",
        )

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        return batched_matmul(per_head(query, self.kernel), ops.transpose(key, (0, 2, 3, 1)))

    def get_config(self) -> Config:
        return super().get_config()  # Keras' own refuses a dtype policy that is an object
