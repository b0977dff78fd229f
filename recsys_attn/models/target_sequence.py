"""BST's sequence: the events of a history and the candidate, in one encoder."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from recsys_attn.attention.core.places import front_first
from recsys_attn.attention.core.watching import HeadsCall, visiting, visitor
from recsys_attn.attention.scores.time_buckets import buckets_of_times
from recsys_attn.blocks.attended import is_mixer
from recsys_attn.blocks.encoder import TransformerEncoder
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.layer import Layer
from recsys_attn.serialization import deserialize
from recsys_attn.tensors import Shape, Tensor

_BUCKETS, _STEP = 20, 1.0  # of the logarithm of the seconds: the last one starts at 5 years


@keras.saving.register_keras_serializable(package="recsys_attn")
class TargetSequence(Layer):
    """Self-attention over the events and the candidate, the last of them; all outputs side by side.

    `output = concat_s encoder([event_s, p_s])_s`, over the last `length` events and the candidate,
    with zeros in front of fewer events: the latest event always has the same place, and the output
    one size. `p_s` is a learned vector of the place, counted from the candidate; or, by time, of
    `floor(log(seconds))` from s to the request.

    The candidate is a part of each sequence, so the encoder runs for each of them: T times the cost
    of an encoder over the events.

    Source: Chen et al., "Behavior Sequence Transformer for E-commerce Recommendation in Alibaba",
    DLP-KDD 2019, arXiv 1905.06874.

    Args:
        encoder: A `TransformerEncoder` whose attention makes weights.
        length: Number of last events.
        position_width: Size P of the vectors of positions.
        by_time: Whether they are those of times.

    Call arguments:
        query: `(B, T, K)`.
        events: `(B, S, K)`, oldest first.
        event_mask: `(B, S)`.
        query_mask: `(B, T)`, False at padded candidates, whose output is zero.
        times: `(B, S)`, integers of seconds, 0 at the request and negative before; with `by_time`.
        return_weights: Whether to return the weights too.

    Returns:
        `(B, T, (length + 1) (K + P))`, and with `return_weights` also `(B, N, T, S)`, the weights
        of the events in the candidate's output of the last block: what is left to 1 is the weight
        of the candidate itself.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerBlock, TransformerEncoder
    >>> from recsys_attn.models.target_sequence import TargetSequence
    >>> query, events = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 8))
    >>> encoder = TransformerEncoder([TransformerBlock(MultiHeadAttention(2, 4))])
    >>> history = TargetSequence(encoder, length=4, position_width=2)
    >>> tuple(history(query, events, np.ones((2, 5), bool)).shape)
    (2, 3, 50)
    """

    returns_weights = True

    def __init__(
        self,
        encoder: Any,
        length: int,
        position_width: int,
        by_time: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("length", length)
        require_positive("position_width", position_width)
        require_bool("by_time", by_time)
        self.length = length
        self.position_width = position_width
        self.by_time = self.uses_times = by_time
        self.encoder: Any = deserialize(encoder)
        blocks: Any = getattr(self.encoder, "blocks", ())
        if not isinstance(self.encoder, TransformerEncoder) or is_mixer(blocks[-1].attention):
            raise TypeError(
                "`encoder` must be a TransformerEncoder with attention in its blocks, or its "
                f"config. Received: {encoder!r} of type {type(encoder).__name__}"
            )
        blocks[-1].attention.mechanism.require_weights("The candidate's explanation")

    def build(self, query_shape: Shape, events_shape: Shape, *shapes: Shape) -> None:
        self.positions = self.add_weight(
            shape=(_BUCKETS if self.by_time else self.length + 1, self.position_width),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="positions",
        )
        self.width = (events_shape[-1] or 0) + self.position_width
        self.encoder.build((None, self.length + 1, self.width))
        self.built = True

    def call(
        self,
        query: Tensor,
        events: Tensor,
        event_mask: Tensor,
        query_mask: Tensor | None = None,
        times: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        leading = ops.shape(query)[:2]
        latest = _Latest.of(event_mask, self.length)
        there = ops.ones(leading, "bool") if query_mask is None else ops.cast(query_mask, "bool")
        present = _beside(latest.filled[..., None], there[..., None])
        x = _beside(ops.take_along_axis(events, latest.index[..., None], axis=1), query)
        if times is not None:
            times = ops.take_along_axis(times, latest.index, axis=1)
        x = ops.concatenate([x, self._positions(times) + ops.zeros_like(x[..., :1])], axis=-1)
        x = ops.reshape(x, (-1, self.length + 1, self.width))
        present = ops.reshape(present, (-1, self.length + 1))
        encoded, weights = self._encoded(x, present, return_weights)
        output = ops.reshape(encoded, (*leading, (self.length + 1) * self.width))
        output = output * ops.cast(there, output.dtype)[..., None]
        if weights is None:
            return output
        weights = ops.reshape(weights, (*leading, *weights.shape[1:]))
        return output, latest.of_events(ops.transpose(weights, (0, 2, 1, 3)))

    def _positions(self, times: Any) -> Tensor:
        """Returns (B or 1, 1, length + 1, P)."""
        if not self.by_time:
            return ops.cast(self.positions, self.compute_dtype)[None, None]
        ages = ops.pad(-times, [[0, 0], [0, 1]])  # the candidate is shown now
        vectors = ops.take(self.positions, buckets_of_times(ages, _BUCKETS, _STEP), axis=0)
        return ops.cast(vectors, self.compute_dtype)[:, None]

    def _encoded(self, x: Tensor, present: Tensor, return_weights: bool) -> tuple[Tensor, Any]:
        """Returns the outputs, and the candidate's weights in the last block (B T, N, length + 1).

        Seen while they are computed: a second call would be a second place of attention.
        """
        if not return_weights:
            return self.encoder(x, present=present), None
        seen: list[Tensor] = []
        outer = visitor()

        def visit(call: HeadsCall) -> HeadsCall:
            call = call if outer is None else outer(call)
            seen.append(call.weights)
            return call

        with visiting(visit):
            encoded = self.encoder(x, present=present)
        return encoded, seen[-1][:, :, -1]


class _Latest(NamedTuple):
    """The latest events of a history, the last one at the last of L places."""

    index: Tensor  # (B, L), of the event at each place; any at a free place
    filled: Tensor  # (B, L), False for free places
    place: Tensor  # (B, S), of each event; -1 for one that is too old or missing

    @classmethod
    def of(cls, event_mask: Tensor, length: int) -> _Latest:
        order, places = front_first(event_mask)
        count = ops.sum(ops.cast(event_mask, "int32"), axis=1, keepdims=True)
        old = count - length  # events that are too old; negative for free places
        number = old + ops.arange(length, dtype="int32")
        index = ops.take_along_axis(order, ops.maximum(number, 0), axis=1)
        counts = ops.logical_and(ops.cast(event_mask, "bool"), places >= old)
        return cls(index, number >= 0, ops.where(counts, places - old, -1))

    def of_events(self, weights: Tensor) -> Tensor:
        """Returns (B, N, T, S) of the weights of places (B, N, T, L + 1)."""
        place = self.place[:, None, None]
        of_places = ops.take_along_axis(weights, ops.maximum(place, 0), axis=-1)
        return ops.where(place >= 0, of_places, ops.zeros_like(of_places))


def _beside(events: Tensor, candidates: Tensor) -> Tensor:
    """Returns (B, T, L + 1, D): the events (B, L, D), and after them each candidate (B, T, D)."""
    several = ops.repeat(events[:, None], ops.shape(candidates)[1], axis=1)
    return ops.concatenate([several, candidates[:, :, None]], axis=2)
