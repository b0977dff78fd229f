"""History layers of the towers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from recsys_attn.attention import presets
from recsys_attn.checks import require_positive, unknown_name
from recsys_attn.interactions.target_attention import TargetAttention
from recsys_attn.layer import Layer
from recsys_attn.masked_mean import masked_max, masked_mean
from recsys_attn.serialization import layer_of
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class MeanHistory(Layer):
    """The mean of the events of a history, the same for every candidate; zeros if it is empty.

    Call arguments:
        query: `(B, T, K)`, not used.
        events: `(B, S, K)`.
        event_mask: `(B, S)`.

    Returns:
        `(B, 1, K)`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.models.histories import MeanHistory
    >>> query, events = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 8))
    >>> tuple(MeanHistory()(query, events, np.ones((2, 5), bool)).shape)
    (2, 1, 8)
    """

    def build(self, *shapes: Shape) -> None:
        self.built = True

    def call(
        self, query: Tensor, events: Tensor, event_mask: Tensor, query_mask: Tensor | None = None
    ) -> Tensor:
        return masked_mean(events, event_mask)


@keras.saving.register_keras_serializable(package="recsys_attn")
class MaxHistory(Layer):
    """The greatest value of each channel over the events of a history; zeros if it is empty.

    `output[c] = max_s event[s, c]`: one striking event is enough, however long the history is.

    Call arguments:
        query: `(B, T, K)`, not used.
        events: `(B, S, K)`.
        event_mask: `(B, S)`.

    Returns:
        `(B, 1, K)`.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models.histories import MaxHistory
    >>> events = np.array([[[1.0, -4.0], [3.0, -5.0], [9.0, 9.0]]], "float32")
    >>> print(np.asarray(MaxHistory()(events, events, np.array([[True, True, False]])))[0, 0])
    [ 3. -4.]
    """

    def build(self, *shapes: Shape) -> None:
        self.built = True

    def call(
        self, query: Tensor, events: Tensor, event_mask: Tensor, query_mask: Tensor | None = None
    ) -> Tensor:
        return masked_max(events, event_mask)


POOLINGS = {"max": MaxHistory, "mean": MeanHistory}


def pooled(kind: str, histories: Iterable[str]) -> dict[str, keras.layers.Layer]:
    """Returns the layer `"mean"` or `"max"` for each history, by name."""
    if kind not in POOLINGS:
        raise ValueError(f"`history_pooling` must be a name. {unknown_name(kind, POOLINGS)}")
    return {name: POOLINGS[kind]() for name in histories}


@keras.saving.register_keras_serializable(package="recsys_attn")
class InterestHistory(Layer):
    """Target attention to a history, and the strength of the interest as a field.

    `[sum_s w[t, s] * event[s], (sum_s w[t, s]) * v]` with a learned vector `v`. DIN's weights are
    not normalised, so that their sum is the strength of the interest; as a field of its own it can
    interact with the others.

    Args:
        attention: A `TargetAttention` without heads, with a mechanism that makes weights.
        width: Size of `v`.

    Call arguments:
        query: `(B, T, K)`.
        events: `(B, S, K)`.
        event_mask: `(B, S)`.
        query_mask: `(B, T)`, False at padded candidates.
        return_weights: Whether to return the weights too.

    Returns:
        `(B, T, K + width)`, and with `return_weights` also `(B, T, S)`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.interactions import TargetAttention
    >>> from recsys_attn.models.histories import InterestHistory
    >>> query, events = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 8))
    >>> history = InterestHistory(TargetAttention("interest"), width=4)
    >>> tuple(history(query, events, np.ones((2, 5), bool)).shape)
    (2, 3, 12)
    """

    returns_weights = True

    def __init__(self, attention: TargetAttention, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("width", width)
        self.attention: Any = layer_of(
            "attention", attention, "history_mask", "return_weights", such_as="TargetAttention"
        )
        self.attention.mechanism.require_weights("The intensity of an interest")
        self.width = width

    def build(self, *shapes: Shape) -> None:
        self.vector = self.add_weight(
            shape=(self.width,),
            initializer=keras.initializers.RandomNormal(stddev=self.width**-0.5),
            name="vector",
        )
        self.built = True

    def call(
        self,
        query: Tensor,
        events: Tensor,
        event_mask: Tensor,
        query_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        interest, weights = self.attention(
            query,
            events,
            history_mask=event_mask,
            query_mask=query_mask,
            return_weights=True,
        )
        intensity = ops.sum(weights, axis=-1, keepdims=True) * ops.cast(self.vector, weights.dtype)
        output = ops.concatenate([interest, ops.cast(intensity, interest.dtype)], axis=-1)
        return (output, weights) if return_weights else output


def attended(
    mechanism: Any, width: int, num_heads: int | None, head_dim: Any, **of_heads: Any
) -> keras.layers.Layer:
    """Returns target attention, with the strength of the interest if it has weights and no heads.

    Args:
        mechanism: A mechanism or a preset.
        width: Size of the field of the strength.
        num_heads, head_dim: Of target attention; None for no heads.
        of_heads: The gate and the disagreement of its heads.
    """
    attention = TargetAttention(presets.fresh(mechanism), num_heads, head_dim, **of_heads)
    if num_heads is None and attention.mechanism.returns_weights:
        return InterestHistory(attention, width)
    return attention
