"""HAN's two levels over a history: events to sessions, sessions to the user."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention import presets
from recsys_attn.attention.layers.pooling import AttentionPooling
from recsys_attn.blocks.both_directions import BothDirections
from recsys_attn.checks import require_positive
from recsys_attn.layer import Layer
from recsys_attn.models.session_grid import SessionGrid
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class SessionHistory(Layer):
    """Hierarchical attention: a bidirectional GRU and attention, over events and over sessions.

    `session_m = sum_l a_ml h_ml`, `h_m = biGRU(events of m)`, `a_m = softmax_l(c . tanh(W h_ml +
    b))`; `user = sum_m b_m g_m`, with `g = biGRU(sessions)` and b as a. A new session begins where
    more than `gap` seconds lie between two events. Only the last `max_sessions` sessions count, and
    the last `max_events` events of each.

    Source: Yang et al., "Hierarchical Attention Networks for Document Classification", NAACL-HLT
    2016, with events for words and sessions for sentences.

    Args:
        units: Size of the GRU in each direction, at both levels.
        gap: Seconds between two events of different sessions; 1800 is usual on the web.
        max_sessions: Number of last sessions. Raise it for regular users with long histories.
        max_events: Number of last events of a session.
        mechanism: Attention of the learned query at both levels, of
            `recsys_attn.attention.presets`; it must make weights.

    Call arguments:
        query: `(B, T, K)`, not used.
        events: `(B, S, K)`, oldest first.
        event_mask: `(B, S)`.
        times: `(B, S)`, integers of seconds.
        return_weights: Whether to return the weights too.

    Returns:
        `(B, 1, 2 units)`, zeros for an empty history. With `return_weights` also the weight of each
        event in the user `(B, 1, S)`, `a b`, which sum to 1; and that of its session `(B, 1, S)`,
        `b`. Both are 0 for an event that does not count.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.models.session_history import SessionHistory
    >>> query, events = keras.random.normal((2, 3, 8)), keras.random.normal((2, 5, 8))
    >>> times = np.array([[0, 60, 9000, 9060, 9120], [0, 9000, 18000, 27000, 27001]])
    >>> history = SessionHistory(units=4)
    >>> tuple(history(query, events, np.ones((2, 5), bool), times=times).shape)
    (2, 1, 8)
    """

    returns_weights = True
    weight_names = ("", ".sessions")
    uses_times = True

    def __init__(
        self,
        units: int,
        gap: int = 1800,
        max_sessions: int = 10,
        max_events: int = 20,
        mechanism: Any = "han",
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
        self.of_events = _Level(units, presets.fresh(mechanism), dtype=self.dtype_policy)
        self.of_sessions = _Level(units, presets.fresh(mechanism), dtype=self.dtype_policy)

    def build(self, query_shape: Shape, events_shape: Shape, *shapes: Shape) -> None:
        self.of_events.build((None, self.max_events, events_shape[-1]))
        self.of_sessions.build((None, self.max_sessions, 2 * self.units))

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
        laid_out = ops.reshape(grid.lay_out(events), (-1, self.max_events, events.shape[-1]))
        filled = ops.reshape(grid.filled, (-1, self.max_events))
        sessions, of_event = self.of_events(laid_out, filled)
        sessions = ops.reshape(sessions, (-1, self.max_sessions, 2 * self.units))
        user, of_session = self.of_sessions(sessions, ops.any(grid.filled, axis=-1))
        if not return_weights:
            return user[:, None]
        of_event = ops.reshape(of_event, (-1, 1, self.max_sessions * self.max_events))
        of_session = ops.repeat(of_session, self.max_events, axis=1)[:, None]
        weights = (of_event * of_session, of_session)
        return user[:, None], *map(grid.of_events, weights)

    def get_config(self) -> Config:
        mechanism = self.of_events.pooling.attention.mechanism
        return {**super().get_config(), "mechanism": serialize(mechanism)}


class _Level(Layer):
    """A bidirectional GRU and attention pooling of its states."""

    def __init__(self, units: int, mechanism: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gru = BothDirections(keras.layers.GRU, units, dtype=self.dtype_policy)
        self.pooling = AttentionPooling(mechanism, dtype=self.dtype_policy)
        self.pooling.attention.mechanism.require_weights("A session's explanation")
        self.width = 2 * units

    def build(self, shape: Shape) -> None:
        self.gru.build(shape)
        self.pooling.build((*shape[:-1], self.width))
        self.built = True

    def call(self, inputs: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        states = self.gru(inputs, present)
        pooled, weights = self.pooling(states, present=present, return_weights=True)
        return pooled, weights
