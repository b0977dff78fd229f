"""Position embeddings."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from recsys_attn.checks import require_bool, require_mask_of, require_number, require_positive
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class SinusoidalPositions(Layer):
    """Adds sinusoids of the position p; without weights.

    `PE(p)[2i] = sin(p / base^(2i / E))`, `PE(p)[2i + 1] = cos(p / base^(2i / E))`

    `PE(p) . PE(q)` depends on `p - q` only (with an even E), so dot products depend on distances.
    The paper multiplies the inputs by the square root of E first; this layer does not.

    Source: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762.

    Args:
        interleaved: Whether sines and cosines alternate, as in the paper, or all sines come first,
            as in Transformer-XL. (Tensor2Tensor has the second form with other wave lengths.)
        base: Ratio of the longest and the shortest wave length.

    Call arguments:
        inputs: (B, S, E).

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import SinusoidalPositions
    >>> events = keras.random.normal((2, 5, 8))
    >>> tuple(SinusoidalPositions()(events).shape)
    (2, 5, 8)
    """

    def __init__(self, interleaved: bool = True, base: float = 10000.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_bool("interleaved", interleaved)
        require_number("base", base, above=1)
        self.interleaved = interleaved
        self.base = base

    def build(self, input_shape: Shape) -> None:
        _check_events(input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        length, width = ops.shape(inputs)[1], inputs.shape[2]
        # Always in float32: in bfloat16 the positions 257 and 258 are equal.
        rates = self.base ** -(np.arange(0, width, 2) / width)
        angles = ops.outer(ops.arange(length, dtype="float32"), rates.astype("float32"))
        sines, cosines = ops.sin(angles), ops.cos(angles)
        if self.interleaved:
            waves = ops.reshape(ops.stack([sines, cosines], axis=-1), (length, 2 * len(rates)))
            waves = waves[:, :width]  # an odd width ends with a sine
        else:
            waves = ops.concatenate([sines, cosines[:, : width // 2]], axis=-1)
        return inputs + ops.cast(waves, inputs.dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> Config:
        return {**super().get_config(), "interleaved": self.interleaved, "base": self.base}


@keras.saving.register_keras_serializable(package="recsys_attn")
class LearnedPositions(Layer):
    """Adds a learned vector per position, by default counted from the latest event.

    `output[s] = input[s] + table[number of present events after s]`

    So the latest event has position 0, and neither padding nor truncation of older events changes a
    position. Events beyond `length` share the last position.

    Args:
        length: Number of positions; the usual length of a history.
        from_end: Whether to count positions from the latest event, or from the earliest. Defaults
            to True.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S), False for padding, which does not count.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.blocks import LearnedPositions
    >>> layer = LearnedPositions(length=50)
    >>> two = np.zeros((1, 2, 8), "float32")
    >>> padded = np.zeros((1, 3, 8), "float32")
    >>> present = np.array([[True, True, False]])
    >>> bool(np.all(layer(padded, present=present)[:, :2] == layer(two)))
    True
    """

    def __init__(self, length: int, from_end: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        require_positive("length", length)
        self.length = length
        require_bool("from_end", from_end)
        self.from_end = from_end

    def build(self, input_shape: Shape) -> None:
        _check_events(input_shape)
        self.table = self.add_weight(
            shape=(self.length, input_shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="table",
        )

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        present = mask if present is None else present
        require_mask_of("present", present, inputs)
        if present is None:
            present = ops.ones((1, ops.shape(inputs)[1]), "bool")
        # The number of earlier events; a flip makes it the number of later ones.
        present = ops.cast(present, "int32")
        if self.from_end:
            present = ops.flip(present, axis=1)
        positions = ops.cumsum(present, axis=1) - present
        if self.from_end:
            positions = ops.flip(positions, axis=1)
        positions = ops.minimum(positions, self.length - 1)
        return inputs + ops.cast(ops.take(self.table, positions, axis=0), inputs.dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def compute_output_spec(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        require_mask_of("present", present, inputs)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {**super().get_config(), "length": self.length, "from_end": self.from_end}


def _check_events(input_shape: Shape) -> None:
    if len(input_shape) != 3 or input_shape[-1] is None:
        raise ValueError(
            "`inputs` must have shape (B, S, E) with a known width E. "
            f"Received: inputs.shape={tuple(input_shape)}"
        )
