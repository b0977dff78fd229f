"""Causal attention and encoders as a recurrent network, one event at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from recsys_attn.attention.layers import event_steps
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.attention.positions.base import EventPositions
from recsys_attn.blocks.encoder import TransformerEncoder
from recsys_attn.blocks.mixers import Mixer
from recsys_attn.blocks.residuals import Reversible
from recsys_attn.blocks.segment_memory import SegmentMemory
from recsys_attn.blocks.transformer import TransformerBlock
from recsys_attn.tensors import Tensor


class EncoderState(NamedTuple):
    """The state of a recurrence over events with positions.

    Args:
        count: (B,), the number of events so far, int32.
        layer: The state of the layer.
    """

    count: Tensor
    layer: Any


class Recurrence:
    """A trained causal layer as a recurrent network: one more event costs no whole pass.

    Event by event its outputs are those of the layer over the whole sequence. Its state:

    | attention or mixer | state |
    |---|---|
    | `Dense` with a causal pattern | keys and values of the last `length` events |
    | `Dense` with `Local(w, 0)`, `Routed` with `Blocks` and such a pattern | of the last w + 1 |
    | `SegmentMemory` | of the memory and the segment, of `length` at most |
    | `Linear` with `causal=True` | sums of a fixed size |
    | `"gru"`, `"lstm"` in one direction | the hidden state |
    | `"convolution"` with `causal=True` | the last (K - 1) dilation events |
    | `"gmlp"` with `causal=True` | the gates of at most `length` events |

    A user's state can be stored and updated with each event. The state of linear attention can
    also be read by any number of candidates. Dropout is off.

    Sources: linear attention: Katharopoulos et al., "Transformers are RNNs: Fast Autoregressive
    Transformers with Linear Attention", ICML 2020, arXiv 2006.16236; one query over stored keys and
    values: Shazeer, "Fast Transformer Decoding", 2019, arXiv 1911.02150.

    Args:
        layer: A built `MultiHeadAttention`, `TransformerBlock`, `TransformerEncoder`,
            `SegmentMemory` or mixer.
        positions: The `EventPositions` before the layer, built, such as
            `LearnedPositions(50, from_end=False)`. Those in a score, such as `"rotary"`, belong to
            the layer. Defaults to none.

    Raises:
        TypeError: The outputs of earlier events depend on later ones.
        ValueError: The layer is not built.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import Dense, MultiHeadAttention, Recurrence
    >>> from recsys_attn.blocks import TransformerBlock, TransformerEncoder
    >>> attention = MultiHeadAttention(2, 4, Dense("rotary", "causal"))
    >>> encoder = TransformerEncoder([TransformerBlock(attention)])
    >>> events = keras.random.normal((3, 5, 8))
    >>> expected = encoder(events)
    >>> recurrence = Recurrence(encoder)
    >>> state = recurrence.initial_state(batch_size=3, length=50)
    >>> for t in range(5):
    ...     output, state = recurrence.step(state, events[:, t : t + 1])
    >>> bool(np.allclose(output[:, 0], expected[:, -1], atol=1e-5))
    True
    """

    def __init__(self, layer: Any, positions: Any = None) -> None:
        if not (isinstance(layer, MultiHeadAttention) and hasattr(layer.mechanism, "read")):
            _require_steps(layer)
        if positions is not None:
            if not isinstance(positions, EventPositions):
                raise TypeError(
                    "`positions` must be an EventPositions; those of a score belong to the layer. "
                    f"Received: positions={positions!r}"
                )
            positions.require_steps()
        for name, part in (("layer", layer), ("positions", positions)):
            if part is not None and not part.built:
                raise ValueError(f"`{name}` must be built before it has a state. Call it once")
        self.layer = layer
        self.positions: Any = positions

    def initial_state(self, batch_size: Any, length: int | None = None) -> Any:
        """Returns the state before the first event.

        Args:
            batch_size: B.
            length: The most events of a cache, needed where a pattern such as `"causal"` has no
                bound. Later events push out the oldest, as the pattern `Local(length - 1, 0)` does.

        Raises:
            ValueError: A cache has no bound.
        """
        state = _initial_state(self.layer, batch_size, length)
        if self.positions is None:
            return state
        return EncoderState(ops.zeros((batch_size,), "int32"), state)

    def step(
        self,
        state: Any,
        event: Tensor,
        present: Tensor | None = None,
        condition: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """Adds one event; returns its output and the new state.

        Args:
            state: The state before it.
            event: (B, 1, E).
            present: (B,), False for rows without an event, whose output is zero and whose state
                stays. Events count as if they stood side by side.
            condition: (B, C), for a conditional norm.

        Returns:
            (B, 1, E) and the state.
        """
        if isinstance(self.layer, MultiHeadAttention):
            event_steps.require_steps(self.layer)  # with Linear, `read` needs no causal form
        x, inner = ops.convert_to_tensor(event), state
        if self.positions is not None:
            count, inner = ops.convert_to_tensor(state.count), state.layer
            x = self.positions.at(x, count[:, None])
        output, new = _step(self.layer, inner, x, condition)
        if self.positions is not None:
            new = EncoderState(count + 1, new)
        if present is None:
            return output, new
        present = ops.cast(present, "bool")
        output = ops.where(present[:, None, None], output, ops.zeros_like(output))
        return output, keras.tree.map_structure(lambda *pair: _where(present, *pair), new, state)

    def update(self, state: Any, events: Tensor, event_mask: Tensor | None = None) -> Any:
        """Returns the state of linear attention after events (B, S, E).

        `event_mask` (B, S) is False for padding.
        """
        mechanism = self._linear()
        _, key, value = self.layer.project(events, events, None)
        return mechanism.update(state, key, value, key_mask=event_mask)

    def read(self, state: Any, query: Tensor) -> Tensor:
        """Returns the attention (B, T, E) of queries (B, T, E) over the events of a state."""
        mechanism = self._linear()
        heads, _, _ = self.layer.project(query, query, None)
        return self.layer.join(self.layer.heads.gated(mechanism.read(state, heads), query))

    def _linear(self) -> Any:
        mechanism = getattr(self.layer, "mechanism", None)
        if not hasattr(mechanism, "update"):
            received = type(mechanism or self.layer).__name__
            raise TypeError(
                "`update` and `read` need a MultiHeadAttention with the mechanism Linear, whose "
                f"state of a fixed size any query can read; use `step`. Received: {received}"
            )
        return mechanism


def _require_steps(layer: Any) -> None:
    if isinstance(layer, TransformerEncoder):
        if layer.reversible:
            raise Reversible.one_stream()
        for block in layer.blocks:
            _require_steps(block.attention)
    elif isinstance(layer, SegmentMemory):
        _require_steps(layer.encoder)
    elif isinstance(layer, TransformerBlock):
        _require_steps(layer.attention)
    elif isinstance(layer, MultiHeadAttention):
        event_steps.require_steps(layer)
    elif not isinstance(layer, Mixer):
        raise TypeError(
            "Only MultiHeadAttention, TransformerBlock, TransformerEncoder, SegmentMemory and "
            f"mixers have a form event by event. Received: {type(layer).__name__}"
        )
    elif not layer.is_causal:
        raise TypeError(
            f"{type(layer).__name__} is not causal here, so a later event changes the outputs of "
            "earlier ones. Use a recurrence in one direction, or a convolution or gMLP with "
            "causal=True"
        )


def _initial_state(layer: Any, batch_size: Any, length: int | None) -> Any:
    if isinstance(layer, SegmentMemory):
        return _initial_state(layer.encoder, batch_size, layer.most_events(length))
    if isinstance(layer, TransformerEncoder):
        return tuple(_initial_state(block, batch_size, length) for block in layer.applied)
    if isinstance(layer, TransformerBlock):
        return _initial_state(layer.attention, batch_size, length)
    if isinstance(layer, MultiHeadAttention):
        return event_steps.initial_state(layer, batch_size, length)
    return layer.initial_state(batch_size)


def _step(
    layer: Any, state: Any, x: Tensor, condition: Tensor | None, first: Tensor | None = None
) -> tuple[Tensor, Any]:
    if isinstance(layer, SegmentMemory):
        # A new segment attends no more than the memory of the ones before it.
        first = layer.first_place(ops.convert_to_tensor(state[0].count))
        return _step(layer.encoder, state, x, condition, first)
    if isinstance(layer, TransformerEncoder):
        states = []
        for block, block_state in zip(layer.applied, state, strict=True):
            x, block_state = _step(block, block_state, x, condition, first)
            states.append(block_state)
        return layer.finish(x, None, condition), tuple(states)
    if isinstance(layer, TransformerBlock):
        around = layer.sublayers[0]
        entry = around.entry(x, None, condition)
        update, state = _step(layer.attention, state, entry, None, first)
        return layer.finish(around(x, update, None, condition), None, condition), state
    if isinstance(layer, MultiHeadAttention):
        return event_steps.step(layer, state, x, first)
    return layer.step(state, x)


def _where(present: Tensor, new: Tensor, old: Tensor) -> Tensor:
    shape = (-1, *(1,) * (len(new.shape) - 1))
    return ops.where(ops.reshape(present, shape), new, old)
