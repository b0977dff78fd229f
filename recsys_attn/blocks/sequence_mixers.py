"""Recurrent and convolution layers in the place of attention, as baselines."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.blocks import activations
from recsys_attn.blocks.both_directions import BothDirections
from recsys_attn.blocks.mixers import MIXERS, Mixer
from recsys_attn.checks import require_bool, require_positive, unknown_name
from recsys_attn.tensors import Shape, Tensor

_CELLS = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}


@MIXERS.register("gru", lstm={"cell": "lstm"})
class RecurrentMixer(Mixer):
    """A GRU or an LSTM over the events that are present, in one direction or in both.

    `h_s = cell(x_s, h_(s-1))`; in both directions the two are concatenated. A projection to E
    follows where the size differs.

    Sources: Cho et al., EMNLP 2014, arXiv 1406.1078; Hochreiter and Schmidhuber, Neural
    Computation 1997.

    Args:
        cell: `"gru"` or `"lstm"`.
        units: Size of the state of a direction. Defaults to E in one direction, to half of it in
            each of two.
        bidirectional: Whether there is a second cell that starts at the last event. It sees the
            future: right for a history before the candidate, wrong for a causal encoder.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import RecurrentMixer
    >>> tuple(RecurrentMixer("lstm", bidirectional=True)(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        cell: str = "gru",
        units: int | None = None,
        bidirectional: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if cell not in _CELLS:
            raise ValueError(f"`cell` must be a name. {unknown_name(cell, _CELLS)}")
        if units is not None:
            require_positive("units", units)
        require_bool("bidirectional", bidirectional)
        self.cell = cell
        self.units = units
        self.bidirectional = bidirectional

    def build(self, input_shape: Shape) -> None:
        width = input_shape[-1] or 0
        count = 2 if self.bidirectional else 1
        units = self.units or -(-width // count)
        make, policy = _CELLS[self.cell], self.dtype_policy
        if self.bidirectional:
            self.recurrence = BothDirections(make, units, dtype=policy)
        else:
            self.recurrence = make(units, return_sequences=True, dtype=policy)
        self.recurrence.build(input_shape)
        self.projection = None
        if count * units != width:
            self.projection = keras.layers.Dense(width, dtype=self.dtype_policy)
            self.projection.build((*input_shape[:-1], count * units))
        self.built = True

    def mix(self, x: Tensor, present: Tensor | None) -> Tensor:
        mask = {"present" if self.bidirectional else "mask": present}
        return self._projected(self.recurrence(x, **mask))

    def _projected(self, states: Tensor) -> Tensor:
        return states if self.projection is None else self.projection(states)

    @property
    def is_causal(self) -> bool:
        return not self.bidirectional

    def initial_state(self, batch_size: Any) -> list[Tensor]:
        return list(keras.tree.flatten(self.recurrence.cell.get_initial_state(batch_size)))

    def step(self, state: list[Tensor], event: Tensor) -> tuple[Tensor, list[Tensor]]:
        output, state = self.recurrence.cell(event[:, 0], state)
        return self._projected(output[:, None]), list(state)


@MIXERS.register("convolution")
class ConvolutionMixer(Mixer):
    """A convolution over the events; padding counts as zeros.

    `output[s] = activation(sum_k W_k x[s + (k - K // 2) * dilation] + b)`; causal: from `s` back.

    Source of the dilated causal form: Yuan et al., "A Simple Convolutional Generative Network for
    Next Item Recommendation" (NextItNet), WSDM 2019, arXiv 1808.05163.

    Args:
        kernel_size: Number K of events of a sum.
        dilation: Distance of these events. Double it from block to block to reach far.
        causal: Whether no event looks at a later one.
        activation: A Keras activation.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import ConvolutionMixer
    >>> tuple(ConvolutionMixer(3, causal=True)(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        kernel_size: int = 3,
        dilation: int = 1,
        causal: bool = False,
        activation: Any = "relu",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("kernel_size", kernel_size)
        require_positive("dilation", dilation)
        require_bool("causal", causal)
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.causal = causal
        self.activation = activations.function("activation", activation)

    def build(self, input_shape: Shape) -> None:
        self.convolution = keras.layers.Conv1D(
            input_shape[-1],
            self.kernel_size,
            padding="causal" if self.causal else "same",
            dilation_rate=self.dilation,
            activation=self.activation,
            dtype=self.dtype_policy,
        )
        self.convolution.build(input_shape)
        self.built = True

    def mix(self, x: Tensor, present: Tensor | None) -> Tensor:
        return self.convolution(x)

    @property
    def is_causal(self) -> bool:
        return self.causal

    def initial_state(self, batch_size: Any) -> Tensor:
        reach = (self.kernel_size - 1) * self.dilation
        width = self.convolution.kernel.shape[1]
        return ops.zeros((batch_size, reach, width), self.compute_dtype)

    def step(self, state: Tensor, event: Tensor) -> tuple[Tensor, Tensor]:
        events = ops.concatenate([state, ops.cast(event, state.dtype)], axis=1)
        # Its last output is the sum of the newest events; it adds zeros before them.
        return self.convolution(events)[:, -1:], events[:, 1:]
