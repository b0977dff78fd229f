"""Linear attention as a recurrent network, one event at a time."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.tensors import Tensor


class Recurrence:
    """A trained layer of linear attention as a recurrent network.

    The size of its state does not depend on the history, so a user's state can be stored, updated
    with each event, and read by any number of candidates.

    Source: Katharopoulos et al., "Transformers are RNNs: Fast Autoregressive Transformers with
    Linear Attention", ICML 2020, arXiv 2006.16236.

    Args:
        attention: A built `MultiHeadAttention` whose mechanism is `Linear`.

    Raises:
        TypeError: The mechanism has no state of a fixed size.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import Linear, MultiHeadAttention, Recurrence
    >>> attention = MultiHeadAttention(2, 4, Linear("elu", causal=True))
    >>> events = keras.random.normal((3, 5, 8))
    >>> expected = attention(events)
    >>> recurrence = Recurrence(attention)
    >>> state = recurrence.initial_state(batch_size=3)
    >>> for t in range(5):
    ...     output, state = recurrence.step(state, events[:, t : t + 1])
    >>> bool(np.allclose(output[:, 0], expected[:, -1], atol=1e-5))
    True
    """

    def __init__(self, attention: MultiHeadAttention) -> None:
        if not isinstance(attention, MultiHeadAttention):
            raise TypeError(
                f"`attention` must be a MultiHeadAttention. Received: {type(attention).__name__}"
            )
        if not hasattr(attention.mechanism, "update"):
            raise TypeError(
                "Only the mechanism Linear is a recurrence with a state of a fixed size. "
                f"Received: {type(attention.mechanism).__name__}"
            )
        if not attention.built:
            raise ValueError("`attention` must be built before it has a state. Call it once")
        self.attention = attention
        self.mechanism: Any = attention.mechanism

    def initial_state(self, batch_size: int) -> Any:
        """Returns the state before the first event."""
        return self.mechanism.initial_state(batch_size)

    def update(self, state: Any, events: Tensor, event_mask: Tensor | None = None) -> Any:
        """Returns the state after events (B, S, E); `event_mask` (B, S) is False for padding."""
        _, key, value = self.attention.project(events, events, None)
        return self.mechanism.update(state, key, value, key_mask=event_mask)

    def read(self, state: Any, query: Tensor) -> Tensor:
        """Returns the attention (B, T, E) of queries (B, T, E) over the events so far."""
        heads, _, _ = self.attention.project(query, query, None)
        output = self.mechanism.read(state, heads)
        return self.attention.join(self.attention.heads.gated(output, query))

    def step(self, state: Any, event: Tensor) -> tuple[Tensor, Any]:
        """Adds one event (B, 1, E); returns its output (B, 1, E) and the new state."""
        state = self.update(state, ops.convert_to_tensor(event))
        return self.read(state, event), state
