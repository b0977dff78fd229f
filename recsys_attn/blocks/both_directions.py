"""A recurrent layer that reads a sequence in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_positive
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


class BothDirections(Layer):
    """The states of two recurrent layers, one from each end, side by side; zeros for padding.

    Keras' `Bidirectional` makes copies by the address of the layer that it gets. While a model is
    loaded, another layer may have had the same address, and its copy is taken.

    Args:
        make: Makes a layer by `return_sequences` and `go_backwards`, as `keras.layers.GRU` does.
        units: Size of the state of a direction.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S), False for padding.

    Returns:
        (B, S, 2 units).

    Example:

    >>> import keras
    >>> from recsys_attn.blocks.both_directions import BothDirections
    >>> tuple(BothDirections(keras.layers.GRU, 4)(keras.random.normal((2, 5, 3))).shape)
    (2, 5, 8)
    """

    def __init__(self, make: Callable[..., keras.layers.RNN], units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("units", units)
        options = {"return_sequences": True, "dtype": self.dtype_policy}
        self.forward = make(units, **options)
        self.backward = make(units, go_backwards=True, **options)
        for layer in (self.forward, self.backward):
            layer.zero_output_for_mask = True

    def build(self, input_shape: Shape) -> None:
        self.forward.build(input_shape)
        self.backward.build(input_shape)
        self.built = True

    def call(self, inputs: Tensor, present: Tensor | None = None) -> Tensor:
        after = ops.flip(self.backward(inputs, mask=present), axis=1)
        return ops.concatenate([self.forward(inputs, mask=present), after], axis=-1)
