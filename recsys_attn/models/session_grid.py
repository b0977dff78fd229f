"""The events of a history, laid out by session and place in it."""

from __future__ import annotations

from typing import NamedTuple

from keras import ops

from recsys_attn.attention.core.places import front_first
from recsys_attn.tensors import Tensor


class SessionGrid(NamedTuple):
    """The last M sessions with the last L events of each, oldest first; free cells at the end.

    Attributes:
        index: (B, M, L), the place of the event of each cell in the history; any for a free cell.
        filled: (B, M, L), False for free cells.
        cell: (B, S), of each event, counted over all M L cells; -1 for one without a cell.
    """

    index: Tensor
    filled: Tensor
    cell: Tensor

    @classmethod
    def of(
        cls, times: Tensor, event_mask: Tensor, gap: int, max_sessions: int, max_events: int
    ) -> SessionGrid:
        """Lays out a history: a new session begins after more than `gap` seconds without an event.

        Args:
            times: (B, S), integers of seconds, oldest first.
            event_mask: (B, S), False for missing events.
            gap: Seconds.
            max_sessions, max_events: The M and the L.
        """
        order, places = front_first(event_mask)
        times = ops.take_along_axis(times, order, axis=1)
        present = ops.take_along_axis(ops.cast(event_mask, "bool"), order, axis=1)
        count = ops.cast(present, "int32")
        apart = ops.abs(times[:, 1:] - times[:, :-1]) > gap
        begins = ops.cast(ops.pad(apart, [[0, 0], [1, 0]]), "int32")
        session = ops.cumsum(begins, axis=1)  # of each event, from the oldest
        last = ops.max(session * count, axis=1, keepdims=True)
        dropped = ops.maximum(last - (max_sessions - 1), 0)  # sessions that are too old
        number = ops.arange(max_sessions, dtype="int32")[None, :, None] + dropped[..., None]
        here = session[:, None] == number  # (B, M, S)
        here = ops.cast(ops.logical_and(here, present[:, None]), "int32")
        before = ops.cast(ops.logical_and(session[:, None] < number, present[:, None]), "int32")
        size, start = ops.sum(here, axis=-1), ops.sum(before, axis=-1)
        start = start + ops.maximum(size - max_events, 0)
        size = ops.minimum(size, max_events)
        place = ops.arange(max_events, dtype="int32")
        filled = place < size[..., None]
        index = ops.where(filled, start[..., None] + place, 0)
        flat = ops.reshape(index, (-1, max_sessions * max_events))
        index = ops.reshape(ops.take_along_axis(order, flat, axis=1), ops.shape(index))
        row = session - dropped
        first = ops.take_along_axis(start, ops.clip(row, 0, max_sessions - 1), axis=1)
        within = ops.cumsum(count, axis=1) - count - first
        counts = ops.logical_and(present, ops.logical_and(row >= 0, within >= 0))
        cell = ops.where(counts, row * max_events + within, -1)
        return cls(index, filled, ops.take_along_axis(cell, places, axis=1))

    def lay_out(self, events: Tensor) -> Tensor:
        """Returns (B, M, L, K) of the events (B, S, K); any event in a free cell."""
        shape = ops.shape(self.index)
        flat = ops.reshape(self.index, (-1, shape[1] * shape[2], 1))
        laid_out = ops.take_along_axis(events, flat, axis=1)
        return ops.reshape(laid_out, (*shape, events.shape[-1]))

    def of_events(self, weights: Tensor) -> Tensor:
        """Returns (B, T, S) of the weights of cells (B, T, M L); 0 for an event without a cell."""
        cell = self.cell[:, None]
        of_cells = ops.take_along_axis(weights, ops.maximum(cell, 0), axis=2)
        return ops.where(cell >= 0, of_cells, ops.zeros_like(of_cells))
