"""History layers of the towers."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention import presets
from recsys_attn.checks import require_positive
from recsys_attn.interactions.target_attention import TargetAttention
from recsys_attn.layer import Layer
from recsys_attn.masked_mean import masked_mean
from recsys_attn.models import encoders
from recsys_attn.serialization import layer_of, serialize
from recsys_attn.tensors import Config, Shape, Tensor


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

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "attention": serialize(self.attention),
            "width": self.width,
        }


@keras.saving.register_keras_serializable(package="recsys_attn")
class EncodedHistory(Layer):
    """Encodes the events of a history before a history layer.

    The encoder runs once per request, for all candidates. Missing events are moved to the end
    before it, so that their positions do not matter.

    Args:
        encoder: A layer `(events (B, S, K), present (B, S)) -> (B, S, K)`, such as a
            `TransformerEncoder`.
        history: The history layer, such as `TargetAttention` or `InterestHistory`.

    Call arguments:
        query: `(B, T, K)`.
        events: `(B, S, K)`.
        event_mask: `(B, S)`.
        query_mask: `(B, T)`, False at padded candidates.
        return_weights: Whether to return the weights of `history` too.

    Returns:
        The output of `history`.

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
        self.built = True  # the parts are built by their first call

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
    """Moves present events to the front, in order; returns events, mask and new positions.

    Args:
        events: (B, S, K).
        event_mask: (B, S), False for missing events.
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
    """Returns target attention, with the strength of the interest if there are weights."""
    attention = TargetAttention(presets.fresh(mechanism))
    return InterestHistory(attention, width) if attention.mechanism.returns_weights else attention


def encoded(
    history: keras.layers.Layer, mechanism: Any, sizes: tuple[int, int, int]
) -> keras.layers.Layer:
    """Returns a history layer over encoded events, or the layer itself without a mechanism.

    Args:
        history: The history layer.
        mechanism: Attention of events to each other, a mixer, or a block: of `encoders.get`.
        sizes: Number of blocks, of heads, and the size of a head.
    """
    if mechanism is None:
        return history
    layers, num_heads, head_dim = sizes
    return EncodedHistory(encoders.stack(mechanism, layers, num_heads, head_dim), history)
