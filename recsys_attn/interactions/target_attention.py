"""DIN's target attention: candidates attend a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.mask_checks import require_fit
from recsys_attn.attention.core.places import after_the_last, compact, in_columns
from recsys_attn.attention.core.weights import dense_weights
from recsys_attn.attention.layers.make_layer import attention_layer
from recsys_attn.layer import Layer
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class TargetAttention(Layer):
    """Attention of candidates to a history.

    `output[t] = sum_s weighting(score(query[t], history[s])) * history[s]`

    With the defaults this is DIN: the score is its activation unit, an MLP over `[q, k, q - k, q *
        k]` with Dice, and the weights are not normalised: their sum is the strength of the
        interest. An empty history gives zeros. For a positional mechanism, all candidates stand
        right after the last event. `Routed` is replaced by `Lookup`.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018,
    arXiv 1706.06978. The authors' code has a softmax: `presets.din(weighting="softmax")`.

    Args:
        mechanism: An instance, a name or a config of `recsys_attn.attention.mechanisms` or
            `recsys_attn.attention.presets`.
        num_heads, head_dim: Number and size of heads, or a pair of each, as in
            `MultiHeadAttention`. Default to None: no projections, as in DIN.
        gate: Weights or switches off heads, of `recsys_attn.attention.gates`. Defaults to none.
        disagreement: A `Disagreement`, a penalty on similar heads, or its factors, such as
            `{"outputs": 0.1}`. Defaults to none.

    Call arguments:
        query: (B, T, E), T candidates.
        history: (B, S, E), one history for all of them. Its B may be 1.
        history_mask: (B, S), False for padding.
        query_mask: (B, T), False for padded candidates, whose output is zero.
        return_weights: Whether to return the weights too.

    Returns:
        (B, T, E), and with `return_weights` also (B, T, S), or (B, N, T, S) with heads; dense for
        a fast mechanism too.

    Raises:
        ValueError: `mechanism` is unknown, `gate` or `disagreement` is given without heads, a mask
            does not fit its tensor, or `return_weights` is True and the mechanism makes no weights.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.interactions import TargetAttention
    >>> candidates = keras.random.normal((2, 3, 8))
    >>> history = keras.random.normal((2, 5, 8))
    >>> present = np.array([[True, True, True, False, False], [False] * 5])
    >>> tuple(TargetAttention()(candidates, history, history_mask=present).shape)
    (2, 3, 8)
    """

    def __init__(
        self,
        mechanism: Any = "din",
        num_heads: int | Sequence[int] | None = None,
        head_dim: int | Sequence[int] | None = None,
        gate: Any = None,
        disagreement: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True  # the Keras masks of the inputs become arguments
        self.num_heads = num_heads
        self.head_dim = head_dim
        of_heads = {"gate": gate, "disagreement": disagreement}
        self.attention = attention_layer(
            mechanism, num_heads, head_dim, self.dtype_policy, **of_heads
        )

    @property
    def mechanism(self) -> keras.layers.Layer:
        return self.attention.mechanism

    @property
    def returns_weights(self) -> bool:
        return self.mechanism.returns_weights or self.mechanism.weights_on_request

    def build(self, query_shape: Shape, history_shape: Shape) -> None:
        self.attention.build(query_shape, history_shape)

    def call(
        self,
        query: Tensor,
        history: Tensor,
        history_mask: Tensor | None = None,
        query_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        masks = {"query_mask": query_mask, "history_mask": history_mask}
        require_fit(query.shape, history.shape, **masks)
        mechanism = self.attention.mechanism
        history, history_mask, columns = compact(mechanism, history, history_mask)
        result = self.attention(
            query,
            history,
            query_mask=query_mask,
            key_mask=history_mask,
            return_weights=return_weights,
            **after_the_last(mechanism, query, history, history_mask),
        )
        if not return_weights:
            return result
        output, weights = result
        weights = dense_weights(weights, ops.shape(query)[1], ops.shape(history)[1])
        return output, in_columns(weights, columns)

    def compute_output_spec(
        self,
        query: Tensor,
        history: Tensor,
        history_mask: Tensor | None = None,
        query_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        masks = {"query_mask": query_mask, "history_mask": history_mask}
        require_fit(query.shape, history.shape, **masks)
        output = self.attention.compute_output_spec(query, history)
        if not return_weights:
            return output
        heads = () if self.num_heads is None else (self.attention.num_heads,)
        sizes = (output.shape[0], *heads, query.shape[1], history.shape[1])
        return output, keras.KerasTensor(sizes, dtype=self.compute_dtype)

    def with_layers_without_heads(self, heads_of: Mapping[Any, Sequence[int]]) -> TargetAttention:
        """Returns a copy with some of the heads, if `heads_of` has its attention."""
        if self.attention not in heads_of:
            return self
        smaller = self.attention.without_heads(heads_of[self.attention])
        config = {"mechanism": serialize(smaller.mechanism)}
        num_heads = smaller.get_config()["num_heads"]
        return type(self).from_config({**self.get_config(), **config, "num_heads": num_heads})

    def get_config(self) -> Config:
        of_heads = {} if self.num_heads is None else self.attention.get_config()
        names = ("num_heads", "head_dim", "gate", "disagreement")
        return {**super().get_config(), **{name: of_heads.get(name) for name in names}}
