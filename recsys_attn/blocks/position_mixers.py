"""Mixers over positions without content: MLP-Mixer and FNet."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from recsys_attn.blocks import activations
from recsys_attn.blocks.mixers import MIXERS, PositionMixer
from recsys_attn.checks import require_positive
from recsys_attn.tensors import Shape, Tensor


@MIXERS.register("mlp_mixer")
class TokenMixer(PositionMixer):
    """MLP-Mixer's network over positions, the same for every channel.

    `output = W_2 activation(W_1 X + b_1) + b_2` with `X` (S, E), `W_1` (U, S), `W_2` (S, U). In a
    pre-norm block with GELU it is the paper.

    Source: Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for Vision", NeurIPS 2021,
    arXiv 2105.01601.

    Args:
        length: Largest number of positions; a shorter sequence uses the first of them. Defaults to
            the number in `build`.
        units: Size U of the hidden layer. Defaults to twice the length.
        activation: Of the hidden layer.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import TokenMixer, TransformerBlock
    >>> block = TransformerBlock(TokenMixer(length=50, units=32), activation="gelu")
    >>> tuple(block(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        length: int | None = None,
        units: int | None = None,
        activation: Any = "gelu",
        **kwargs: Any,
    ) -> None:
        super().__init__(length, **kwargs)
        if units is not None:
            require_positive("units", units)
        self.units = units
        self.activation = activations.function("activation", activation)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        units = self.units or 2 * self.positions
        shapes = {"hidden": (self.positions, units), "output": (units, self.positions)}
        self._kernels = [
            self.add_weight(shape=shape, initializer="glorot_uniform", name=f"{name}_kernel")
            for name, shape in shapes.items()
        ]
        self._biases = [
            self.add_weight(shape=shape[1:], initializer="zeros", name=f"{name}_bias")
            for name, shape in shapes.items()
        ]

    def mix(self, x: Tensor, present: Tensor | None) -> Tensor:
        length = ops.shape(x)[1]
        columns = ops.transpose(x, (0, 2, 1))
        hidden = ops.matmul(columns, self._kernels[0][:length]) + self._biases[0]
        mixed = ops.matmul(self.activation(hidden), self._kernels[1][:, :length])
        return ops.transpose(mixed + self._biases[1][:length], (0, 2, 1))


@MIXERS.register("fnet")
class FourierMixer(PositionMixer):
    """FNet's Fourier transform over positions and channels; without weights.

    `output = Re(F_S X F_E)` of the sequence with zeros up to `length`, so that padding changes
    nothing. In a post-norm block with GELU it is the paper.

    Source: Lee-Thorp et al., "FNet: Mixing Tokens with Fourier Transforms", NAACL 2022,
    arXiv 2105.03824.

    Args:
        length: Number of positions of the transform, at least that of the longest sequence.
            Defaults to the number in `build`.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import FourierMixer, TransformerBlock
    >>> block = TransformerBlock(FourierMixer(50), activation="gelu", placement="post")
    >>> tuple(block(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    encodes_order = False  # the paper adds positions

    def mix(self, x: Tensor, present: Tensor | None) -> Tensor:
        # Products with the matrices of the transform: any backend, and exact in float32.
        length = ops.shape(x)[1]
        cos_s, sin_s = (wave[:length, :length] for wave in _waves(self.positions))
        cos_e, sin_e = _waves(x.shape[-1])
        wide = ops.cast(x, "float32")
        real = ops.matmul(cos_s, ops.matmul(wide, cos_e))
        return ops.cast(real - ops.matmul(sin_s, ops.matmul(wide, sin_e)), x.dtype)


def _waves(count: int) -> tuple[Tensor, Tensor]:
    """Returns cosines and sines of `2 pi i j / count`, each (count, count), in float32."""
    steps = np.outer(np.arange(count), np.arange(count)) % count
    angles = 2 * np.pi * steps / count
    return tuple(ops.convert_to_tensor(f(angles).astype("float32")) for f in (np.cos, np.sin))
