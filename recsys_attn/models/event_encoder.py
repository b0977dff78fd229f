"""The encoder of a sequence model: positions, dropout and blocks over embedded events."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.positions import transformer_xl
from recsys_attn.attention.positions.base import POSITIONS
from recsys_attn.backend.dropout import Dropout
from recsys_attn.checks import require_bool, require_share
from recsys_attn.layer import Layer
from recsys_attn.models.encoded_history import EncoderParts
from recsys_attn.serialization import layer_of
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class EventEncoder(Layer):
    """Encodes embedded events, padded behind the last one.

    `states = encoder(norm(dropout(positions(events))))`

    Its encoder and positions are those of an `EncodedHistory`, so that a ranking model can start
    from a trained one.

    Args:
        encoder: A layer `(events (B, S, K), present (B, S)) -> (B, S, K)`, such as a
            `TransformerEncoder`.
        positions: An `EventPositions` before the encoder, or its config. Defaults to none: right
            for an encoder with positions of its own.
        share_biases: Whether the blocks of the encoder have one u and v of Transformer-XL.
        dropout: Share of the numbers of the events that is dropped in training, after positions.
        scale: Whether to multiply the events by `sqrt(K)` before positions, as in SASRec and HSTU.
        normalise: Whether to normalise the events before the encoder: for post-norm blocks, whose
            first residual would else be far smaller than the output of the attention.

    Call arguments:
        events: `(B, S, K)`.
        present: `(B, S)`, False for padding.
        positions: `(B, S)`, the times of the events, integers of seconds, for positions that use
            times.

    Returns:
        `(B, S, K)`, zeros for padding.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import Dense, MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerBlock, TransformerEncoder
    >>> from recsys_attn.models.event_encoder import EventEncoder
    >>> attention = MultiHeadAttention(2, 4, Dense(pattern="causal"))
    >>> layer = EventEncoder(TransformerEncoder([TransformerBlock(attention)]), "learned")
    >>> tuple(layer(keras.random.normal((2, 5, 8)), np.ones((2, 5), bool)).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        encoder: Any,
        positions: Any = None,
        share_biases: bool = False,
        dropout: float = 0.0,
        scale: bool = False,
        normalise: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        flags = {"share_biases": share_biases, "scale": scale, "normalise": normalise}
        for name, value in flags.items():
            require_bool(name, value)
        require_share("dropout", dropout)
        self.encoder: Any = layer_of("encoder", encoder, "present", such_as="TransformerEncoder")
        self.positions: Any = None if positions is None else POSITIONS.get(positions)
        self.share_biases = share_biases
        if share_biases:
            transformer_xl.share_biases(self.encoder)
        self.scale = scale
        self.normalise = normalise
        self.norm = keras.layers.LayerNormalization(dtype=self.dtype_policy) if normalise else None
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)

    @classmethod
    def of(cls, parts: EncoderParts, dropout: float = 0.0, **options: bool) -> EventEncoder:
        """Returns the encoder of some parts."""
        return cls(*parts, dropout, **options)

    @property
    def by_time(self) -> bool:
        """Whether the positions of the encoder are the times of the events."""
        return getattr(self.encoder, "uses_times", False)

    @property
    def uses_times(self) -> bool:
        """Whether it takes the times of the events."""
        return self.by_time or (self.positions is not None and self.positions.uses_times)

    def build(self, *shapes: Shape) -> None:
        self.built = True  # the parts are built by their first call

    def call(self, events: Tensor, present: Tensor, positions: Tensor | None = None) -> Tensor:
        events = self.enter(events, present, positions)
        options = {"positions": positions} if self.by_time else {}
        return self.encoder(events, present=present, **options)

    def enter(
        self,
        events: Tensor,
        present: Tensor,
        times: Tensor | None = None,
        training: bool | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Returns the input of the encoder; `training` is that of the call by default.

        `places` (B, S) are the positions of events that follow others; None counts the events.
        """
        if self.scale:
            events = events * math.sqrt(events.shape[-1])
        if self.positions is not None and places is not None:
            events = self.positions.at(events, places)
        elif self.positions is not None:
            options = {"times": times} if self.positions.uses_times else {}
            events = self.positions(events, present=present, **options)
        # Keras takes an explicit None for "not in training", in the layers after this one too.
        events = self.dropout(events, **({} if training is None else {"training": training}))
        events = events if self.norm is None else self.norm(events)
        return events * ops.cast(present, events.dtype)[..., None]
