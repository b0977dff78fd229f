"""AutoInt: feature fields attend to each other."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.mechanisms.dense import Dense
from recsys_attn.attention.scores.dot import Dot
from recsys_attn.checks import require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class InteractingLayer(keras.layers.Layer):
    """Multi-head self-attention over feature fields, as AutoInt has it.

    `output[m] = relu(concat_h(sum_k softmax_k(W_Q^h e_m . W_K^h e_k) W_V^h e_k) + W_Res e_m)`

    No scale, no bias and no projection after the heads; the residual is inside the ReLU.

    Source: Song et al., "AutoInt: Automatic Feature Interaction Learning via Self-Attentive
    Neural Networks", CIKM 2019, arXiv 1810.11921. The authors' code differs from the paper: it
    has biases, ReLU after each projection, a scale, and a layer normalisation at the end.

    Args:
        num_heads: Number of heads N.
        head_dim: Size of a head H.
        use_residual: Whether to add `W_Res e_m`.
        scale: Whether to divide scores by the square root of `head_dim`.
        dropout: Share of the attention weights that is dropped in training.

    Call arguments:
        inputs: (..., F, E).
        field_mask: (..., F), False for missing fields: none attends to them, and they get zeros.

    Returns:
        (..., F, N * H).

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import InteractingLayer
    >>> fields = keras.random.normal((2, 3, 5, 16))
    >>> tuple(InteractingLayer(num_heads=2, head_dim=8)(fields).shape)
    (2, 3, 5, 16)
    """

    def __init__(
        self,
        num_heads: int = 2,
        head_dim: int = 32,
        use_residual: bool = True,
        scale: bool = False,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_heads", num_heads)
        require_positive("head_dim", head_dim)
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.use_residual = use_residual
        self.scale = scale
        self.mechanism = Dense(
            Dot(scale, dtype=self.dtype_policy), dropout=dropout, dtype=self.dtype_policy
        )

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) < 3 or input_shape[-1] is None:
            raise ValueError(
                "`inputs` must have shape (..., F, E) with at least one axis before the fields "
                f"and a known width E. Received: inputs.shape={tuple(input_shape)}"
            )
        # W_Q, W_K, W_V and W_Res side by side, so that one matrix product applies them all.
        self.kernel = self.add_weight(
            shape=(input_shape[-1], self._parts * self.num_heads * self.head_dim),
            initializer=blockwise(self._parts, axis=1),
            name="kernel",
        )
        per_head = (None, input_shape[-2], self.num_heads, self.head_dim)
        self.mechanism.build(per_head, per_head, per_head)

    def call(self, inputs: Tensor, field_mask: Tensor | None = None) -> Tensor:
        if field_mask is not None:
            _check_field_mask(field_mask.shape, inputs.shape)
        shape = ops.shape(inputs)
        fields, size = shape[-2], self.num_heads * self.head_dim
        parts = ops.split(
            ops.matmul(ops.reshape(inputs, (-1, inputs.shape[-1])), self.kernel),
            self._parts,
            axis=-1,
        )
        heads = (-1, fields, self.num_heads, self.head_dim)
        output, _ = self.mechanism(
            *[ops.reshape(part, heads) for part in parts[:3]],
            key_mask=None if field_mask is None else ops.reshape(field_mask, (-1, fields)),
        )
        output = ops.reshape(output, (-1, size))
        if self.use_residual:
            output = output + parts[3]
        output = ops.reshape(ops.relu(output), (*shape[:-1], size))
        if field_mask is not None:
            output = output * ops.cast(field_mask, output.dtype)[..., None]
        return output

    @property
    def _parts(self) -> int:
        return 4 if self.use_residual else 3

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.num_heads * self.head_dim)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "use_residual": self.use_residual,
            "scale": self.scale,
            "dropout": self.mechanism.dropout.rate,
        }


@keras.saving.register_keras_serializable(package="recsys_attn")
class AutoInt(keras.layers.Layer):
    """Interacting layers, each of which combines what the one before has combined.

    Source: Song et al., "AutoInt: Automatic Feature Interaction Learning via Self-Attentive
    Neural Networks", CIKM 2019, arXiv 1810.11921.

    Args:
        num_layers: Number of interacting layers.
        num_heads, head_dim, use_residual, scale, dropout: Of every `InteractingLayer`.

    Call arguments:
        inputs: (..., F, E).
        field_mask: (..., F), False for missing fields: none attends to them, and they get zeros.

    Returns:
        (..., F, N * H).

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import AutoInt
    >>> fields = keras.random.normal((2, 3, 5, 16))
    >>> tuple(AutoInt(num_layers=2, num_heads=2, head_dim=8)(fields).shape)
    (2, 3, 5, 16)
    """

    def __init__(
        self,
        num_layers: int = 3,
        num_heads: int = 2,
        head_dim: int = 32,
        use_residual: bool = True,
        scale: bool = False,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_layers", num_layers)
        self.options: Config = {
            "num_heads": num_heads,
            "head_dim": head_dim,
            "use_residual": use_residual,
            "scale": scale,
            "dropout": dropout,
        }
        self.layers = [
            InteractingLayer(**self.options, dtype=self.dtype_policy) for _ in range(num_layers)
        ]

    def build(self, input_shape: Shape) -> None:
        for layer in self.layers:
            layer.build(input_shape)
            input_shape = layer.compute_output_shape(input_shape)

    def call(self, inputs: Tensor, field_mask: Tensor | None = None) -> Tensor:
        x = inputs
        for layer in self.layers:
            x = layer(x, field_mask=field_mask)
        return x

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return self.layers[-1].compute_output_shape(input_shape)

    def get_config(self) -> Config:
        return {**super().get_config(), "num_layers": len(self.layers), **self.options}


def _check_field_mask(mask_shape: Shape, input_shape: Shape) -> None:
    expected = tuple(input_shape[:-1])
    if len(mask_shape) != len(expected) or any(
        None not in sizes and sizes[0] != sizes[1]
        for sizes in zip(mask_shape, expected, strict=True)
    ):
        raise ValueError(
            f"`field_mask` must have the shape of `inputs` without the last axis, {expected}. "
            f"Received: field_mask.shape={tuple(mask_shape)}"
        )
