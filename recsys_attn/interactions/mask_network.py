"""The instance-guided masks of MaskNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.backend.dropout import Dropout
from recsys_attn.blocks import activations
from recsys_attn.blocks.norms import NORMS, build_norm, has_norm, normalise, reusable
from recsys_attn.checks import (
    require_bool,
    require_positive,
    require_share,
    require_sizes,
    unknown_name,
)
from recsys_attn.constant_factors import held
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor

_STRUCTURES = ("parallel", "serial")


@keras.saving.register_keras_serializable(package="recsys_attn")
class MaskBlock(Layer):
    """A layer of a network whose inputs are multiplied by a mask that the embeddings decide.

    `output = dropout(activation(norm(W (m * x))))`, `m = W_2 relu(W_1 v + b_1) + b_2`, with v the
    embeddings of the instance, whatever the depth of x. W has an offset only without a norm.

    Source: Wang et al., "MaskNet: Introducing Feature-Wise Multiplication to CTR Ranking Models by
    Instance-Guided Mask", DLP-KDD 2021, arXiv 2102.07619, equations 4 and 11.

    Args:
        units: Size of the output.
        reduction: The hidden layer of the mask has the size of x times it.
        activation: Of the output, `"dice"` or any of Keras.
        dropout: Share of the outputs dropped in training.
        norm: A normalisation of `recsys_attn.blocks.norms`.

    Call arguments:
        inputs: x (..., D).
        embeddings: v (..., K).
        where: Booleans (...), False for padding, which does not enter the statistics of Dice and
            of batches.

    Returns:
        (..., units).

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import MaskBlock
    >>> x, v = keras.random.normal((2, 3, 8)), keras.random.normal((2, 3, 20))
    >>> tuple(MaskBlock(6)(x, v).shape)
    (2, 3, 6)
    """

    def __init__(
        self,
        units: int,
        reduction: int = 2,
        activation: Any = "relu",
        dropout: float = 0.0,
        norm: Any = "layer",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        require_positive("units", units)
        require_positive("reduction", reduction)
        require_share("dropout", dropout)
        self.units = units
        self.reduction = reduction
        self.activation = activations.serialize(activation)
        policy = self.dtype_policy
        self.norm = reusable(NORMS, norm)
        self.normalisation = NORMS.get(self.norm, dtype=policy)
        self.dense = keras.layers.Dense(
            units, use_bias=not has_norm(self.normalisation), dtype=policy
        )
        self.activated = activations.get(self.activation, dtype=policy)
        self.dropout = Dropout(dropout, dtype=policy)

    def build(self, inputs_shape: Shape, embeddings_shape: Shape) -> None:
        size, policy = inputs_shape[-1] or 0, self.dtype_policy
        self.aggregation = keras.layers.Dense(self.reduction * size, "relu", dtype=policy)
        self.projection = keras.layers.Dense(size, dtype=policy)
        self.aggregation.build(embeddings_shape)
        self.projection.build((*embeddings_shape[:-1], self.reduction * size))
        self.dense.build(inputs_shape)
        shape = self.compute_output_shape(inputs_shape)
        build_norm(self.normalisation, shape, None)
        self.activated.build(shape)

    def call(self, inputs: Tensor, embeddings: Tensor, where: Tensor | None = None) -> Tensor:
        mask = self.projection(self.aggregation(embeddings))
        x = normalise(self.normalisation, self.dense(inputs * held(mask)), where, None)
        return self.dropout(activations.apply(self.activated, x, where=where))

    def compute_output_shape(self, inputs_shape: Shape, *others: Shape) -> Shape:
        return (*inputs_shape[:-1], self.units)


@keras.saving.register_keras_serializable(package="recsys_attn")
class MaskNetwork(Layer):
    """Mask blocks over the fields: side by side, or one after the other.

    With v the fields side by side, and v' the same after the layer normalisation of each field:
    `"parallel"`: `[block_1(v', v), block_2(v', v), ...]`; `"serial"`: `x_1 = block_1(v', v)`,
    `x_k = block_k(x_{k-1}, v)`, of which the last is the output.

    Source: Wang et al., "MaskNet: Introducing Feature-Wise Multiplication to CTR Ranking Models by
    Instance-Guided Mask", DLP-KDD 2021, arXiv 2102.07619.

    Args:
        units: Size of the output of each `MaskBlock`.
        structure: `"parallel"` or `"serial"`.
        embedding_norm: Whether the fields are normalised, with a scale and an offset for each
            number of each field. Turn it off where their length carries meaning.
        reduction, activation, dropout, norm: Arguments of every `MaskBlock`.

    Call arguments:
        inputs: Fields (..., F, E).
        present: (..., F), False for missing fields, which count as zeros.
        where: Booleans (...), False for padding, which does not enter the statistics of Dice and
            of batches.

    Returns:
        (..., D), the sum of `units` or the last of them.

    Raises:
        ValueError: `units` is empty, `structure` is unknown, or a number is out of range.

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import MaskNetwork
    >>> tuple(MaskNetwork((6, 8))(keras.random.normal((2, 3, 5, 4))).shape)
    (2, 3, 14)
    """

    def __init__(
        self,
        units: Sequence[int] = (400, 400, 400),
        structure: str = "parallel",
        embedding_norm: bool = True,
        reduction: int = 2,
        activation: Any = "relu",
        dropout: float = 0.0,
        norm: Any = "layer",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = require_sizes("units", units)
        if not self.units:
            raise ValueError("`units` must have the size of at least one block. Received: units=()")
        if structure not in _STRUCTURES:
            raise ValueError(f"`structure` must be a name. {unknown_name(structure, _STRUCTURES)}")
        require_bool("embedding_norm", embedding_norm)
        self.structure = structure
        self.embedding_norm = embedding_norm
        self.blocks = [
            MaskBlock(size, reduction, activation, dropout, norm, dtype=self.dtype_policy)
            for size in self.units
        ]

    def build(self, inputs_shape: Shape) -> None:
        fields, width = inputs_shape[-2:]
        if fields is None or width is None:
            raise ValueError(
                "The number of fields and their width must be known when the layer is built. "
                f"Received: inputs.shape={tuple(inputs_shape)}"
            )
        if self.embedding_norm:
            sizes = (fields, width)
            self.scale = self.add_weight(shape=sizes, initializer="ones", name="scale")
            self.offset = self.add_weight(shape=sizes, initializer="zeros", name="offset")
        embeddings: Shape = (*inputs_shape[:-2], fields * width)
        shape = embeddings
        for block in self.blocks:
            block.build(shape, embeddings)
            if self.structure == "serial":
                shape = block.compute_output_shape(shape)

    def call(
        self, inputs: Tensor, present: Tensor | None = None, where: Tensor | None = None
    ) -> Tensor:
        known = None if present is None else ops.cast(present, "bool")[..., None]
        fields = _known(inputs, known)
        shape = (*ops.shape(inputs)[:-2], inputs.shape[-2] * inputs.shape[-1])
        embeddings = ops.reshape(fields, shape)
        x = embeddings
        if self.embedding_norm:
            normalised = _normalised(fields) * self.scale + self.offset
            x = ops.reshape(_known(normalised, known), shape)
        outputs = []
        for block in self.blocks:
            outputs.append(block(x, embeddings, where=where))
            x = outputs[-1] if self.structure == "serial" else x
        return outputs[-1] if self.structure == "serial" else ops.concatenate(outputs, axis=-1)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        size = self.units[-1] if self.structure == "serial" else sum(self.units)
        return (*inputs_shape[:-2], size)

    def get_config(self) -> Config:
        block = self.blocks[0].get_config()
        shared = ("reduction", "activation", "dropout", "norm")
        return {**super().get_config(), **{name: block[name] for name in shared}}


def _known(fields: Tensor, known: Tensor | None) -> Tensor:
    return fields if known is None else ops.where(known, fields, ops.zeros_like(fields))


def _normalised(fields: Tensor) -> Tensor:
    """Returns each field with mean 0 and variance 1."""
    x = ops.cast(fields, "float32")
    x = x - ops.mean(x, axis=-1, keepdims=True)
    deviation = ops.sqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + 1e-6)
    return ops.cast(x / held(deviation), fields.dtype)
