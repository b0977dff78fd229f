"""What the towers of several models make of a history."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention import presets
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.blocks.transformer import TransformerBlock, TransformerEncoder
from recsys_attn.checks import require_positive
from recsys_attn.interactions.target_attention import TargetAttention
from recsys_attn.layer import Layer
from recsys_attn.masked_mean import masked_mean
from recsys_attn.serialization import layer_of, serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class MeanHistory(Layer):
    """A history as the mean of its events, the same for every candidate; zeros where it is empty.

    Call arguments:
        query: `(B, T, K)`, not looked at.
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
class InterestHistory(Layer):
    """A history as target attention sees it, and how strong the interest is.

    `[sum_s w[t, s] * event[s], (sum_s w[t, s]) * v]` with a learned vector `v`. DIN leaves its
    weights unnormalised so that their sum tells the intensity of the interest; as a field of its
    own it can interact with the others.

    Args:
        attention: A `TargetAttention` without heads, whose mechanism makes weights.
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

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "attention": serialize(self.attention),
            "width": self.width,
        }


@keras.saving.register_keras_serializable(package="recsys_attn")
class EncodedHistory(Layer):
    """A history whose events look at each other before the candidates look at them.

    The encoder runs once a request, whatever the number of candidates. Events that are missing
    are moved behind the others before it, so that it makes the same of a history wherever they
    stand.

    Args:
        encoder: A layer `(events (B, S, K), present (B, S)) -> (B, S, K)`, such as a
            `TransformerEncoder`.
        history: What follows: a layer such as `TargetAttention` or `InterestHistory`.

    Call arguments:
        query: `(B, T, K)`.
        events: `(B, S, K)`.
        event_mask: `(B, S)`.
        query_mask: `(B, T)`, False at padded candidates.
        return_weights: Whether to return the weights of `history` too, where it makes any.

    Returns:
        What `history` returns.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerBlock, TransformerEncoder
    >>> from recsys_attn.models.histories import EncodedHistory, MeanHistory
    >>> query, events = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 8))
    >>> blocks = [TransformerBlock(MultiHeadAttention(2, 4, "transformer"))]
    >>> history = EncodedHistory(TransformerEncoder(blocks), MeanHistory())
    >>> tuple(history(query, events, np.ones((2, 5), bool)).shape)
    (2, 1, 8)
    """

    def __init__(self, encoder: Any, history: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder: Any = layer_of("encoder", encoder, "present", such_as="TransformerEncoder")
        self.history: Any = layer_of("history", history, "query_mask", such_as="TargetAttention")

    @property
    def returns_weights(self) -> bool:
        return getattr(self.history, "returns_weights", False)

    def build(self, *shapes: Shape) -> None:
        self.built = True  # the parts build themselves on their first call

    def call(
        self,
        query: Tensor,
        events: Tensor,
        event_mask: Tensor,
        query_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        events, event_mask, places = _moved_to_front(events, event_mask)
        encoded = self.encoder(events, present=event_mask)
        if not return_weights:
            return self.history(query, encoded, event_mask, query_mask=query_mask)
        output, weights = self.history(
            query, encoded, event_mask, query_mask=query_mask, return_weights=True
        )
        heads = (1,) * (len(weights.shape) - 2)
        places = ops.reshape(places, (-1, *heads, ops.shape(places)[-1]))
        places = ops.broadcast_to(places, ops.shape(weights))
        return output, ops.take_along_axis(weights, places, axis=-1)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "encoder": serialize(self.encoder),
            "history": serialize(self.history),
        }


def _moved_to_front(events: Tensor, event_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Events and mask with those present first, in their order, and where each event went.

    Args:
        events: (B, S, K).
        event_mask: (B, S), False for events that are missing.
    """
    present = ops.cast(event_mask, "int32")
    before = ops.cumsum(present, axis=1) - present
    behind = ops.sum(present, axis=1, keepdims=True) + ops.cumsum(1 - present, axis=1) - 1
    places = ops.where(ops.cast(event_mask, "bool"), before, behind)
    order = ops.argsort(places, axis=1)
    return (
        ops.take_along_axis(events, order[..., None], axis=1),
        ops.take_along_axis(event_mask, order, axis=1),
        places,
    )


def attended(mechanism: Any, width: int) -> keras.layers.Layer:
    """Target attention, with the intensity of the interest where the mechanism has weights."""
    attention = TargetAttention(presets.fresh(mechanism))
    return InterestHistory(attention, width) if attention.mechanism.returns_weights else attention


def encoded(
    history: keras.layers.Layer, mechanism: Any, sizes: tuple[int, int, int]
) -> keras.layers.Layer:
    """A history layer over events that Transformer blocks encode; as it is without a mechanism.

    Args:
        history: The history layer.
        mechanism: How events look at each other.
        sizes: Number of blocks, of heads, and the size of a head.
    """
    if mechanism is None:
        return history
    layers, num_heads, head_dim = sizes
    blocks = [
        TransformerBlock(MultiHeadAttention(num_heads, head_dim, presets.fresh(mechanism)))
        for _ in range(layers)
    ]
    return EncodedHistory(TransformerEncoder(blocks), history)
