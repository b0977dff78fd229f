"""Histories whose events are encoded first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from recsys_attn.attention.core.places import front_first, in_columns
from recsys_attn.attention.positions import transformer_xl
from recsys_attn.attention.positions.base import POSITIONS, EventPositions, Positions
from recsys_attn.attention.positions.by_time import TimePositions
from recsys_attn.attention.positions.in_score import NoPositions
from recsys_attn.attention.positions.learned import LearnedPositions
from recsys_attn.blocks.control_tokens import ControlTokens
from recsys_attn.blocks.film import Film
from recsys_attn.checks import require_bool, require_number
from recsys_attn.layer import Layer
from recsys_attn.models import encoders
from recsys_attn.models.encoder_context import require_context
from recsys_attn.models.option_tables import EncoderContext, EncoderOptions, EventEncoderOptions
from recsys_attn.schema import Schema, Sequence, is_age
from recsys_attn.serialization import layer_of
from recsys_attn.tensors import Shape, Tensor


class Encoded(NamedTuple):
    """The encoded events of a history.

    Attributes:
        events: `(B, S, K)`, the present ones first.
        present: `(B, S)`, False for padding.
    """

    events: Tensor
    present: Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class EncodedHistory(Layer):
    """Encodes the events of a history before a history layer.

    The encoder runs once per request, for all candidates. Missing events are moved to the end
    before it, so that their positions do not matter.

    Args:
        encoder: A layer `(events (B, S, K), present (B, S)) -> (B, S, K)`, such as a
            `TransformerEncoder`. One whose attribute `uses_times` is True gets the times of the
            events as `positions`.
        history: The history layer, such as `TargetAttention` or `InterestHistory`.
        positions: An `EventPositions` before the encoder, its name or its config. Defaults to
            none: right for an encoder with positions of its own.
        share_biases: Whether the blocks of the encoder have one u and v of Transformer-XL.
        context: An `EncoderContext`, or the table of its arguments: features of the request for
            the encoder. Defaults to none. With `"tokens"` the encoder is a `ControlTokens`.
        gain: Initial value of a learned factor of the encoded events. Defaults to none. Set it near
            the size of the rows of new tables for an encoder that was trained elsewhere: the rest
            of a new model cannot learn beside numbers a hundred times as large.

    Call arguments:
        query: `(B, T, K)`.
        events: `(B, S, K)`.
        event_mask: `(B, S)`.
        query_mask: `(B, T)`, False at padded candidates.
        times: `(B, S)`, integers of seconds, where `uses_times`.
        context: Vectors `(B, C)` of the features of `context`, a list.
        context_mask: `(B, M)`, False for those of the M features that are missing.
        return_weights: Whether to return the weights of `history` too.

    Returns:
        The output of `history`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerBlock, TransformerEncoder
    >>> from recsys_attn.models.encoded_history import EncodedHistory
    >>> from recsys_attn.models.histories import MeanHistory
    >>> query, events = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 8))
    >>> blocks = [TransformerBlock(MultiHeadAttention(2, 4, "transformer"))]
    >>> history = EncodedHistory(TransformerEncoder(blocks), MeanHistory(), "learned")
    >>> tuple(history(query, events, np.ones((2, 5), bool)).shape)
    (2, 1, 8)
    """

    def __init__(
        self,
        encoder: Any,
        history: Any,
        positions: Any = None,
        share_biases: bool = False,
        context: Any = None,
        gain: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.encoder: Any = layer_of("encoder", encoder, "present", such_as="TransformerEncoder")
        self.history: Any = layer_of("history", history, "query_mask", such_as="TargetAttention")
        require_bool("share_biases", share_biases)
        self.share_biases = share_biases
        if share_biases:
            transformer_xl.share_biases(self.encoder)
        self.context = None if context is None else EncoderContext.of(context)
        self.film = None
        if self.context is not None and self.context.how == "film":
            self.film = Film(dtype=self.dtype_policy)
        self.gain, self.factor = gain, None
        if gain is not None:
            require_number("gain", gain, above=0)
            initial = keras.initializers.Constant(gain)
            self.factor = self.add_weight(shape=(), initializer=initial, name="gain")
        self.positions = None
        if positions is not None:
            self.positions = POSITIONS.get(positions)
            if not isinstance(self.positions, EventPositions):
                raise TypeError(
                    "`positions` must be an EventPositions, such as 'learned': the others are a "
                    "part of the encoder's score, by `positions.in_mechanism(mechanism)`. "
                    f"Received: positions={positions!r}"
                )

    @property
    def returns_weights(self) -> bool:
        return getattr(self.history, "returns_weights", False)

    @property
    def uses_times(self) -> bool:
        """Whether it takes the times of the events."""
        return any(getattr(part, "uses_times", False) for part in (self.encoder, self.positions))

    def build(self, *shapes: Shape) -> None:
        self.built = True  # the parts are built by their first call

    def call(
        self,
        query: Tensor,
        events: Tensor,
        event_mask: Tensor,
        query_mask: Tensor | None = None,
        times: Tensor | None = None,
        context: Any = None,
        context_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        encoded = self.encode(events, event_mask, times, context, context_mask)
        if not return_weights:
            return self.read(query, encoded, query_mask)
        output, weights = self.read(query, encoded, query_mask, return_weights=True)
        _, places = front_first(event_mask)
        return output, in_columns(weights, places)

    def encode(
        self,
        events: Tensor,
        event_mask: Tensor,
        times: Tensor | None = None,
        context: Any = None,
        context_mask: Tensor | None = None,
    ) -> Encoded:
        """Returns what `read` takes, the same for all candidates; the arguments are a call's.

        Example:

        >>> import keras
        >>> import numpy as np
        >>> from recsys_attn.blocks.sequence_mixers import RecurrentMixer
        >>> from recsys_attn.models.encoded_history import EncodedHistory
        >>> from recsys_attn.models.histories import MeanHistory
        >>> history = EncodedHistory(RecurrentMixer("gru"), MeanHistory())
        >>> query, events = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 8))
        >>> whole = history(query, events, np.ones((2, 5), bool))
        >>> read = history.read(query, history.encode(events, np.ones((2, 5), bool)))
        >>> bool(np.allclose(whole, read, atol=1e-6))
        True
        """
        order, _ = front_first(event_mask)
        events = ops.cast(events, self.compute_dtype)  # outside of a call nothing else casts it
        events = ops.take_along_axis(events, order[..., None], axis=1)
        present = ops.take_along_axis(event_mask, order, axis=1)
        of_encoder: dict[str, Tensor] = {}
        of_positions = {}
        if self.film is not None:
            events = self.film(events, ops.concatenate(context, axis=-1))
        elif self.context is not None and self.context.stacked:
            of_encoder = {"context": ops.stack(context, axis=1), "context_mask": context_mask}
        elif self.context is not None:
            of_encoder = {"condition": ops.concatenate(context, axis=-1)}
        if times is not None:
            times = ops.take_along_axis(times, order, axis=1)
            if getattr(self.encoder, "uses_times", False):
                of_encoder["positions"] = times
            if getattr(self.positions, "uses_times", False):
                of_positions["times"] = times
        if self.positions is not None:
            events = self.positions(events, present=present, **of_positions)
        return Encoded(self.encoder(events, present=present, **of_encoder), present)

    def read(
        self,
        query: Tensor,
        encoded: Encoded,
        query_mask: Tensor | None = None,
        **with_weights: bool,
    ) -> Any:
        """Returns the output of `history`; its weights are those of the events of `encoded`."""
        events = encoded.events
        if self.factor is not None:
            events = events * ops.cast(self.factor, events.dtype)
        return self.history(query, events, encoded.present, query_mask=query_mask, **with_weights)


def encoded_histories(
    schema: Schema,
    make_history: Callable[[], keras.layers.Layer],
    encoder: EncoderOptions | None,
    width: int,
    heads: tuple[Any, Any],
    **of_heads: Any,
) -> dict[str, keras.layers.Layer]:
    """Returns a history layer for each history, over encoded events if there is an encoder.

    Args:
        schema: The schema of the histories.
        make_history: Returns a new history layer.
        encoder: The encoder; None for none.
        width: Embedding width of the model.
        heads: Number of heads of the encoder, and the size of a head, where it has none.
        of_heads: The gate and the disagreement of the encoder's heads; None for none.

    Raises:
        ValueError: The encoder cannot have these positions or this context.
    """
    if encoder is None:
        return {name: make_history() for name in schema.histories}
    require_context(schema, width, encoder)
    histories = {}
    for name, sequences in schema.histories.items():
        parts = encoder_parts(encoder, sequences, heads, encoder.context, **of_heads)
        histories[name] = EncodedHistory(
            parts.encoder,
            make_history(),
            parts.positions,
            parts.share_biases,
            encoder.context,
        )
    return histories


class EncoderParts(NamedTuple):
    """A new encoder of events, and the positions before it; arguments of `EncodedHistory`."""

    encoder: Any
    positions: EventPositions | None
    share_biases: bool


def encoder_parts(
    options: EventEncoderOptions,
    sequences: tuple[Sequence, ...],
    heads: tuple[Any, Any],
    context: EncoderContext | None = None,
    **of_heads: Any,
) -> EncoderParts:
    """Returns the encoder of a history; the arguments are those of `encoded_histories`.

    Args:
        sequences: The sequences of the history.

    Raises:
        ValueError: The encoder cannot have these positions.
    """
    encoder, positions = options.name, options.positions
    if positions is None and not encoders.encodes_order(encoder):
        positions = "learned"
    added, share_biases, by_time = None, False, False
    if positions is not None:
        length = sequences[0].max_length
        kind = POSITIONS.get(positions).for_history(length)
        if kind.uses_times:
            require_ages(sequences, f"`encoder.positions` {positions!r}")
        try:
            encoder = _with_positions(encoder, kind)
        except ValueError as error:
            raise ValueError(f"`encoder.positions` does not fit `encoder`. {error}") from None
        share_biases = getattr(kind, "share_biases", False)
        by_time = isinstance(kind, TimePositions)
        if by_time:
            added = LearnedPositions(length)  # the order, beside the times
        elif isinstance(kind, EventPositions):
            added = type(kind).from_config(kind.get_config())  # each history has its own weights
    sizes = options.num_heads or heads[0], options.head_dim or heads[1]
    how = None if context is None else context.how
    layers: Any = encoders.stack(
        encoder, options.num_layers, *sizes, conditional=how == "norm", **of_heads
    )
    if not by_time and layers.uses_times:
        raise ValueError(
            "`encoder` has a score of times, which would read places here. Leave the times out of "
            "its score, and give `encoder.positions`: 'time_buckets' or 'time_intervals'"
        )
    if how == "tokens":
        layers = ControlTokens(layers)
    return EncoderParts(layers, added, share_biases)


def require_histories(schema: Schema, model: str) -> None:
    """Raises unless the schema has a history, which a model attends to."""
    if not schema.histories:
        raise ValueError(
            f"{model} needs a history: `schema` must have at least one Sequence feature. Received: "
            f"{[feature.name for feature in schema.features]}. Without one, use `mlp` or `autoint`"
        )


def require_ages(sequences: tuple[Sequence, ...], what: str) -> None:
    """Raises unless a history has a sequence of ages, which `what` uses."""
    if not any(is_age(sequence) for sequence in sequences):
        raise ValueError(
            f"{what} uses the times of the events, so the history needs a sequence of their ages: "
            "a Sequence with the transform 'age', such as a column of `data.histories` with "
            f"ages = true. Received: {[sequence.name for sequence in sequences]}"
        )


def _with_positions(encoder: Any, kind: Positions) -> Any:
    mechanism = encoders.mechanism_of(encoder)
    if mechanism is not None:
        return encoders.with_mechanism(encoder, kind.in_mechanism(mechanism))
    blind = isinstance(kind, NoPositions)
    if isinstance(kind, EventPositions) or (blind and not encoders.encodes_order(encoder)):
        return encoder
    raise ValueError(
        "It knows the order of the events by itself: leave the positions out"
        if blind
        else f"{type(kind).__name__} is a part of the score of attention, which it does not have: "
        "use positions that change the events, such as 'learned'"
    )
