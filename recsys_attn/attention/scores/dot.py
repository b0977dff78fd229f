"""The dot product score."""

from __future__ import annotations

import weakref
from typing import Any

from recsys_attn.attention.core.head_layout import dot_products, head_sizes, require_equal_sizes
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.checks import require_bool
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("dot", scaled_dot={"scale": True})
class Dot(Score):
    """`score = q . k`, and `q . k / sqrt(H)` with `scale`; `q + u` for q with `query_bias`.

    Its name is `"dot"` without and `"scaled_dot"` with `scale`. The bias u of each head is
    Transformer-XL's content bias, the same for every query.

    Sources: Luong et al., "Effective Approaches to Attention-based Neural Machine Translation",
    EMNLP 2015, arXiv 1508.04025; scaled: Vaswani et al., "Attention Is All You Need", NIPS 2017,
    arXiv 1706.03762; with a bias: Dai et al., "Transformer-XL: Attentive Language Models Beyond a
    Fixed-Length Context", ACL 2019, arXiv 1901.02860.

    Args:
        scale: Whether to divide by the square root of the head size, so that the variance of the
            logits does not grow with it. Defaults to False, as in AutoInt.
        query_bias: Whether to add a learned vector, initially zero, to the queries of a head.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import Dot
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 8))
    >>> tuple(Dot(scale=True)(query, key).shape)
    (2, 1, 3, 5)
    """

    def __init__(self, scale: bool = False, query_bias: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_bool("scale", scale)
        require_bool("query_bias", query_bias)
        self.scale = scale
        self.query_bias = query_bias
        self._lender: Any = None

    def share_bias(self, other: Dot) -> None:
        """Uses the bias of another score, which must be built first."""
        self._lender = weakref.ref(other)  # Keras would track a strong reference as a part

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, query_size, key_size = head_sizes(query_shape, key_shape)
        require_equal_sizes(query_size, key_size, "Dot")
        if self.query_bias and self._lender is None:
            self.bias = self.add_weight(
                shape=(heads, query_size), initializer="zeros", name="query_bias"
            )

    def call(self, query: Tensor, key: Tensor, allowed: Tensor | None = None) -> Tensor:
        if self.query_bias:
            query = query + (self if self._lender is None else self._lender()).bias
        if self.scale:
            query = query * query.shape[-1] ** -0.5
        return dot_products(query, key)
