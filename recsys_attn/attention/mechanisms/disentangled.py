"""Disentangled self-attention: weights of pairs and of single keys."""

from __future__ import annotations

from keras import ops

from recsys_attn.attention.core.head_layout import (
    batched_matmul,
    dot_products,
    head_sizes,
    require_a_value_a_key,
    swap_heads,
)
from recsys_attn.attention.core.masks import Masks, both
from recsys_attn.attention.mechanisms.base import MECHANISMS, Mechanism
from recsys_attn.attention.weightings.softmax import masked_softmax
from recsys_attn.backend.dropout import Dropout
from recsys_attn.checks import require_bool, require_share
from recsys_attn.masked_mean import masked_mean
from recsys_attn.tensors import Shape, Tensor


@MECHANISMS.register("disentangled")
class Disentangled(Mechanism):
    """DESTINE's attention: a whitened pairwise term and a unary term, each with its softmax.

    `weights[t, s] = softmax_s((q_t - mean(q)) . (k_s - mean(k))) + softmax_s(u_s)`

    The unary logit u, a projection of the inputs of its own, is the importance of a key for all
    queries; the pairwise term is its further importance for one of them. The weights of a query
    sum to 2. The means are those of all queries and keys, so it is for sets, such as the fields of
    a row: self-attention without patterns, other masks than padding, and positions.

    Source: Xu et al., "Disentangled Self-Attentive Neural Networks for Click-Through Rate
    Prediction", CIKM 2021, arXiv 2101.03654.

    Args:
        scale: Whether to divide the pairwise logits by the square root of the head size. Defaults
            to False; set it with large heads.
        dropout: Share of the weights dropped in training. Defaults to 0.

    Call arguments:
        query: (B, S, N, H).
        key: (B, S, N, H + 1), the last channel the logit u.
        value: (B, S, N, V).
        masks: A `Masks`, or by name `query_mask` and `key_mask` (B, S), False for padding, which
            enters no mean.

    Returns:
        The output of each head (B, S, N, V) and the weights before dropout (B, N, S, S).

    Raises:
        ValueError: Keys do not have one channel more than queries, or come from elsewhere.

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import InteractingLayer
    >>> fields = keras.random.normal((2, 3, 5, 16))
    >>> tuple(InteractingLayer(2, 8, mechanism="disentangled")(fields).shape)
    (2, 3, 5, 16)
    """

    honours = ("query_mask", "key_mask")
    own_sequence = True
    returns_weights = True
    unary_size = 1

    def __init__(self, scale: bool = False, dropout: float = 0.0, **kwargs: object) -> None:
        super().__init__(**kwargs)
        require_bool("scale", scale)
        require_share("dropout", dropout)
        self.scale = scale
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        require_a_value_a_key(key_shape, value_shape)
        _, query_size, key_size = head_sizes(query_shape, key_shape)
        if key_size != query_size + 1:
            raise ValueError(
                "Disentangled needs keys with one channel more than queries, the logit of the "
                "unary term, which MultiHeadAttention and InteractingLayer project. "
                f"Received: query.shape={tuple(query_shape)}, key.shape={tuple(key_shape)}"
            )

    def call(
        self, query: Tensor, key: Tensor, value: Tensor, masks: Masks
    ) -> tuple[Tensor, Tensor]:
        present = both(masks.query, masks.key)
        keys = None if masks.key is None else masks.key[:, None, None, :]
        unary = ops.transpose(key[..., -1], (0, 2, 1))[:, :, None]  # (B, N, 1, S)
        weights = masked_softmax(self._pairwise(query, key[..., :-1], present), keys)
        weights = weights + masked_softmax(unary, keys)
        if masks.query is not None:
            weights = weights * ops.cast(masks.query[:, None, :, None], weights.dtype)
        weights = ops.cast(weights, self.compute_dtype)
        output = batched_matmul(self.dropout(weights), swap_heads(value))
        return swap_heads(output), weights

    def _pairwise(self, query: Tensor, key: Tensor, present: Tensor | None) -> Tensor:
        """Returns the logits of pairs; the mean of the keys would leave their softmax the same."""
        query = swap_heads(query)
        if present is None:
            query = query - ops.mean(query, axis=2, keepdims=True)
        else:
            query = query - masked_mean(query, present[:, None])
        if self.scale:
            query = query * query.shape[-1] ** -0.5
        return dot_products(swap_heads(query), key)

    def reason(self, name: str) -> str:
        return "a key that is hidden from one query would still count in the means"

    def as_cross_attention(self) -> Mechanism:
        raise ValueError(
            "Disentangled is self-attention: it subtracts the mean of the queries, so queries from "
            "elsewhere (candidates, tasks, learned queries) would depend on each other. Use the "
            "mechanism Dense"
        )
