"""Sinusoidal positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from recsys_attn.attention.positions.base import POSITIONS, EventPositions
from recsys_attn.checks import require_bool, require_number
from recsys_attn.tensors import Tensor


@POSITIONS.register("sinusoidal")
class SinusoidalPositions(EventPositions):
    """Adds sinusoids of the position p, counted from the first event; without weights.

    `PE(p)[2i] = scale sin(p / base^(2i / E))`, `PE(p)[2i + 1] = scale cos(p / base^(2i / E))`

    `PE(p) . PE(q)` depends on `p - q` only (with an even E), so dot products depend on distances.
    The paper multiplies the inputs by the square root of E first; this layer does not.

    Source: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762.

    Args:
        interleaved: Whether sines and cosines alternate, as in the paper, or all sines come first,
            as in Transformer-XL. (Tensor2Tensor has the second form with other wave lengths.)
        base: Ratio of the longest and the shortest wave length.
        scale: Height of the waves. Defaults to 1, as in the paper, and in a model to 0.02, because
            its embeddings start with a deviation of 0.01, which higher waves would drown.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S); not used, so padding must stand behind the events.
        mask: Not used.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.positions import SinusoidalPositions
    >>> events = keras.random.normal((2, 5, 8))
    >>> tuple(SinusoidalPositions()(events).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        interleaved: bool = True,
        base: float = 10000.0,
        scale: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_bool("interleaved", interleaved)
        require_number("base", base, above=1)
        if scale is not None:
            require_number("scale", scale, above=0)
        self.interleaved = interleaved
        self.base = base
        self.scale = scale

    def for_history(self, length: int) -> SinusoidalPositions:
        if self.scale is not None:
            return self
        return type(self).from_config({**self.get_config(), "scale": 0.02})

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return self.at(inputs, ops.arange(ops.shape(inputs)[1])[None])

    def at(self, inputs: Tensor, places: Tensor) -> Tensor:
        width = inputs.shape[2]
        # Always in float32: in bfloat16 the positions 257 and 258 are equal.
        rates = (self.base ** -(np.arange(0, width, 2) / width)).astype("float32")
        angles = ops.cast(places, "float32")[..., None] * rates
        sines, cosines = ops.sin(angles), ops.cos(angles)
        if self.interleaved:
            pairs = ops.stack([sines, cosines], axis=-1)
            waves = ops.reshape(pairs, (*ops.shape(places), 2 * len(rates)))
            waves = waves[..., :width]  # an odd width ends with a sine
        else:
            waves = ops.concatenate([sines, cosines[..., : width // 2]], axis=-1)
        if self.scale is not None:
            waves = waves * self.scale
        return inputs + ops.cast(waves, inputs.dtype)
