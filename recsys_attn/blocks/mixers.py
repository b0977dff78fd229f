"""Mixers: what stands in the place of attention in a block, without queries and keys."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from recsys_attn.blocks import activations
from recsys_attn.checks import require_bool, require_mask_of, require_positive
from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Config, Shape, Tensor

MIXERS = Registry(
    "a mixer",
    "mixers",
    call=("inputs", "present"),
    hint="The inputs are (B, S, E), and present (B, S) is False for padding",
)


class Mixer(Layer):
    """The base class: a layer that mixes the positions of one sequence.

    Call arguments:
        inputs: (B, S, E).
        present: (B, S), False for padding, which reaches no output and whose output is zero.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (B, S, E).

    Example:

    >>> import keras
    >>> from recsys_attn.blocks.mixers import Mixer
    >>> class Mean(Mixer):
    ...     def mix(self, x, present):
    ...         return keras.ops.mean(x, axis=1, keepdims=True) + 0 * x
    >>> tuple(Mean()(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        present = mask if present is None else present
        require_mask_of("present", present, inputs)
        if present is None:
            return self.mix(inputs, None)
        present = ops.cast(present, "bool")
        there = present[..., None]
        mixed = self.mix(ops.where(there, inputs, ops.zeros_like(inputs)), present)
        return ops.where(there, mixed, ops.zeros_like(mixed))

    def mix(self, x: Tensor, present: Tensor | None) -> Tensor:
        """Returns (B, S, E); x is zero for padding."""
        raise NotImplementedError

    def build(self, input_shape: Shape) -> None:
        self.built = True

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def compute_output_spec(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        require_mask_of("present", present, inputs)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)


class PositionMixer(Mixer):
    """The base class of mixers with weights for each position, of which there is a fixed number.

    Args:
        length: Largest number of positions; a shorter sequence uses the first of them. Defaults to
            the number in `build`.

    Example:

    >>> from recsys_attn.blocks.mixers import FourierMixer, PositionMixer
    >>> isinstance(FourierMixer(50), PositionMixer)
    True
    """

    def __init__(self, length: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if length is not None:
            require_positive("length", length)
        self.length = length

    def build(self, input_shape: Shape) -> None:
        longest = self.length or input_shape[1]
        if longest is None:
            raise ValueError(
                f"{type(self).__name__} must know the longest sequence there will be. Give "
                f"`length`. Received: length=None, inputs.shape={tuple(input_shape)}"
            )
        self.positions = longest
        self._require_length(input_shape)
        self.built = True

    def _require_length(self, shape: Shape) -> None:
        if shape[1] is not None and shape[1] > self.positions:
            raise ValueError(
                f"{type(self).__name__} is made for a `length` of at most {self.positions}. Make "
                f"it with a greater `length`, or cut the sequence. Received: {shape[1]} positions"
            )

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        self._require_length(inputs.shape)
        return super().call(inputs, present, mask)

    def get_config(self) -> Config:
        return {**super().get_config(), "length": self.length}


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

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
        }


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

    def mix(self, x: Tensor, present: Tensor | None) -> Tensor:
        # Products with the matrices of the transform: any backend, and exact in float32.
        length = ops.shape(x)[1]
        cos_s, sin_s = (wave[:length, :length] for wave in _waves(self.positions))
        cos_e, sin_e = _waves(x.shape[-1])
        wide = ops.cast(x, "float32")
        real = ops.matmul(cos_s, ops.matmul(wide, cos_e))
        return ops.cast(real - ops.matmul(sin_s, ops.matmul(wide, sin_e)), x.dtype)


@MIXERS.register("gmlp")
class GatingMixer(PositionMixer):
    """gMLP: channels gated by a learned sum over positions.

    `Z = gelu(X U + c)`, `Z_1, Z_2 = split(Z)`, `output = (Z_1 * (W norm(Z_2) + b)) V + d` with `W`
    (S, S) near zero and `b` (S) of ones at first: a new layer gates nothing. With
    `attention_size`, a single head of attention over X is added to the gate (aMLP). In a pre-norm
    block with `feed_forward_units=0` it is the paper.

    Source: Liu et al., "Pay Attention to MLPs", NeurIPS 2021, arXiv 2105.08050.

    Args:
        length: Largest number of positions; a shorter sequence uses the first of them. Defaults to
            the number in `build`.
        units: Width of Z, even. Defaults to four times E.
        causal: Whether no position looks at a later one.
        attention_size: Size of the head of tiny attention; the paper has 64. Defaults to none.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import GatingMixer, TransformerBlock
    >>> block = TransformerBlock(GatingMixer(50, attention_size=16), feed_forward_units=0)
    >>> tuple(block(keras.random.normal((2, 5, 8))).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        length: int | None = None,
        units: int | None = None,
        causal: bool = False,
        attention_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(length, **kwargs)
        if units is not None:
            require_positive("units", units)
            if units % 2:
                raise ValueError(f"`units` must be even, for two halves. Received: units={units}")
        require_bool("causal", causal)
        if attention_size is not None:
            require_positive("attention_size", attention_size)
        self.units = units
        self.causal = causal
        self.attention_size = attention_size

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        width = input_shape[-1] or 0
        self.half = (self.units or 4 * width) // 2
        policy = self.dtype_policy
        self.hidden = keras.layers.Dense(2 * self.half, activation="gelu", dtype=policy)
        self.hidden.build(input_shape)
        self.norm = keras.layers.LayerNormalization(epsilon=1e-6, dtype=policy)
        self.norm.build((*input_shape[:-1], self.half))
        self.output_layer = keras.layers.Dense(width, dtype=policy)
        self.output_layer.build((*input_shape[:-1], self.half))
        self.gate_kernel = self.add_weight(
            shape=(self.positions, self.positions),
            initializer=keras.initializers.RandomNormal(stddev=1e-3),
            name="gate_kernel",
        )
        self.gate_bias = self.add_weight(
            shape=(self.positions,), initializer="ones", name="gate_bias"
        )
        if self.attention_size is not None:
            self.projection = keras.layers.Dense(3 * self.attention_size, dtype=policy)
            self.projection.build(input_shape)
            self.attended = keras.layers.Dense(self.half, dtype=policy)
            self.attended.build((*input_shape[:-1], self.attention_size))

    def mix(self, x: Tensor, present: Tensor | None) -> Tensor:
        length = ops.shape(x)[1]
        content, gate = ops.split(self.hidden(x), 2, axis=-1)
        gate = self.norm(gate)
        if present is not None:
            gate = ops.where(present[..., None], gate, ops.zeros_like(gate))
        kernel = self.gate_kernel[:length, :length]
        kernel = ops.tril(kernel) if self.causal else kernel
        gate = ops.matmul(kernel, gate) + self.gate_bias[:length, None]
        if self.attention_size is not None:
            gate = gate + self._attention(x, present)
        return self.output_layer(content * gate)

    def _attention(self, x: Tensor, present: Tensor | None) -> Tensor:
        query, key, value = ops.split(self.projection(x), 3, axis=-1)
        query = query * query.shape[-1] ** -0.5
        logits = ops.cast(ops.matmul(query, ops.transpose(key, (0, 2, 1))), "float32")
        hidden = ops.full_like(logits, -1e30)
        if present is not None:
            logits = ops.where(present[:, None], logits, hidden)
        if self.causal:
            logits = ops.where(ops.tril(ops.ones(ops.shape(logits)[1:], "bool")), logits, hidden)
        weights = ops.cast(ops.softmax(logits), value.dtype)
        return self.attended(ops.matmul(weights, value))

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "units": self.units,
            "causal": self.causal,
            "attention_size": self.attention_size,
        }


def _waves(count: int) -> tuple[Tensor, Tensor]:
    """Returns cosines and sines of `2 pi i j / count`, each (count, count), in float32."""
    steps = np.outer(np.arange(count), np.arange(count)) % count
    angles = 2 * np.pi * steps / count
    return tuple(ops.convert_to_tensor(f(angles).astype("float32")) for f in (np.cos, np.sin))
