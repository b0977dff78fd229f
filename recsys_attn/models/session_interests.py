"""DSIN's interests of sessions, each weighted for a candidate."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.blocks.both_directions import BothDirections
from recsys_attn.checks import require_positive
from recsys_attn.interactions.target_attention import TargetAttention
from recsys_attn.layer import Layer
from recsys_attn.masked_mean import masked_mean
from recsys_attn.models.session_grid import SessionGrid
from recsys_attn.serialization import layer_of
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class SessionInterests(Layer):
    """The interest of each session by self-attention, a Bi-LSTM over them, and target attention.

    `Q_k[t, c] = event[c] + w_K[k] + w_T[t] + w_C[c]` for event t of session k, `I_k =
    mean_t encoder(Q_k)`, `H = biLSTM(I)`, and for a candidate `[sum_k a_k I_k, sum_k b_k H_k]`
    with `a = softmax_k(I_k W q)` and `b = softmax_k(H_k V q)`. A new session begins where more than
    `gap` seconds lie between two events. Only the last `max_sessions` sessions count, and the last
    `max_events` events of each; k and t count from the latest one, so that cutting older ones moves
    none. Everything but the two sums is computed once for all candidates. The LSTM has no
    peepholes, unlike that of the paper's equations. `H` has the states of both directions side by
    side; the authors' code has their mean.

    Source: Feng et al., "Deep Session Interest Network for Click-Through Rate Prediction",
    IJCAI 2019, arXiv 1905.06482; it counts sessions and events from the first.

    Args:
        encoder: A layer `(events (B, L, K), present (B, L)) -> (B, L, K)` over one session, such as
            a `TransformerBlock`.
        units: Size of the LSTM in each direction.
        gap: Seconds between two events of different sessions; 1800 as in the paper.
        max_sessions: Number of last sessions.
        max_events: Number of last events of a session.

    Call arguments:
        query: `(B, T, K)`.
        events: `(B, S, K)`, oldest first.
        event_mask: `(B, S)`.
        query_mask: `(B, T)`, False at padded candidates, whose output is zero.
        times: `(B, S)`, integers of seconds.
        return_weights: Whether to return the weights too.

    Returns:
        `(B, T, K + 2 units)`, zeros for an empty history. With `return_weights` also the share of
        each event in the first sum `(B, T, S)`, `a` divided by the events of its session, which
        sum to 1; and that of its session `(B, T, S)`, `a`. Both are 0 for an event that does not
        count.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import MultiHeadAttention
    >>> from recsys_attn.blocks import TransformerBlock
    >>> from recsys_attn.models.session_interests import SessionInterests
    >>> query, events = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 8))
    >>> times = np.array([[0, 60, 9000, 9060, 9120], [0, 9000, 18000, 27000, 27001]])
    >>> history = SessionInterests(TransformerBlock(MultiHeadAttention(2, 4)), units=3)
    >>> tuple(history(query, events, np.ones((2, 5), bool), times=times).shape)
    (2, 3, 14)
    """

    returns_weights = True
    weight_names = ("", ".sessions")
    uses_times = True

    def __init__(
        self,
        encoder: Any,
        units: int,
        gap: int = 1800,
        max_sessions: int = 5,
        max_events: int = 10,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        sizes = {"units": units, "gap": gap, "max_sessions": max_sessions, "max_events": max_events}
        for name, size in sizes.items():
            require_positive(name, size)
        self.units = units
        self.gap = gap
        self.max_sessions = max_sessions
        self.max_events = max_events
        self.encoder: Any = layer_of("encoder", encoder, "present", such_as="TransformerBlock")
        policy = {"dtype": self.dtype_policy}
        self.lstm = BothDirections(keras.layers.LSTM, units, **policy)
        self.of_interests, self.of_states = (
            TargetAttention(Dense("general", **policy), **policy) for _ in range(2)
        )

    def build(self, query_shape: Shape, events_shape: Shape, *shapes: Shape) -> None:
        width = events_shape[-1] or 0

        def bias(name: str, size: int) -> Any:
            initializer = keras.initializers.RandomNormal(stddev=0.02)
            return self.add_weight(shape=(size,), initializer=initializer, name=name)

        self.session_bias = bias("session_bias", self.max_sessions)
        self.position_bias = bias("position_bias", self.max_events)
        self.unit_bias = bias("unit_bias", width)
        self.encoder.build((None, self.max_events, width))
        self.lstm.build((None, self.max_sessions, width))
        self.of_interests.build(query_shape, (None, self.max_sessions, width))
        self.of_states.build(query_shape, (None, self.max_sessions, 2 * self.units))
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
        grid = SessionGrid.of(times, event_mask, self.gap, self.max_sessions, self.max_events)
        size = ops.sum(ops.cast(grid.filled, "int32"), axis=-1)  # (B, M)
        laid_out = grid.lay_out(events) + self._biases(size)
        width = events.shape[-1]
        filled = ops.reshape(grid.filled, (-1, self.max_events))
        laid_out = ops.reshape(laid_out, (-1, self.max_events, width))
        encoded = masked_mean(self.encoder(laid_out, present=filled), filled)
        interests = ops.reshape(encoded, (-1, self.max_sessions, width))
        masks = {"history_mask": size > 0, "query_mask": query_mask}
        states = self.lstm(interests, present=masks["history_mask"])
        interest, shares = self.of_interests(query, interests, return_weights=True, **masks)
        state = self.of_states(query, states, **masks)
        output = ops.concatenate([interest, state], axis=-1)
        if not return_weights:
            return output
        sizes = ops.cast(ops.maximum(size, 1), shares.dtype)[:, None]
        weights = (shares / sizes, shares)
        return output, *(grid.of_events(ops.repeat(x, self.max_events, axis=-1)) for x in weights)

    def _biases(self, size: Tensor) -> Tensor:
        """Returns (B, M, L, K), from the number of events of each session."""
        used = ops.cast(size > 0, "int32")
        later = ops.sum(used, axis=1, keepdims=True) - ops.cumsum(used, axis=1)
        place = ops.arange(self.max_events, dtype="int32")
        behind = ops.maximum(size[..., None] - 1 - place, 0)
        bias = ops.take(self.session_bias, later, axis=0)[..., None]
        bias = (bias + ops.take(self.position_bias, behind, axis=0))[..., None]
        return ops.cast(bias + self.unit_bias, self.compute_dtype)
