"""Gates of fields: from some of them, as in FinalMLP, or from all, as in FINAL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_not_negative, require_sizes
from recsys_attn.constant_factors import held
from recsys_attn.field_factors import record_factors
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class ContextGate(Layer):
    """Multiplies every number of the fields by a gate in (0, 2) that some fields decide.

    `output = 2 sigmoid(W mlp(c) + b) * x`, with c the fields of the context side by side; without
    a context `output = 2 sigmoid(b) * x`, the same gates for all rows. Two streams with other
    contexts see other features.

    Source: Mao et al., "FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction", AAAI 2023,
    arXiv 2304.00902, equations 7 to 10. The authors' code looks the context up in tables of its
    own; here it is the fields themselves.

    Args:
        context: Places of the fields that decide. Defaults to none.
        units: Hidden units of the network over the context.

    Call arguments:
        inputs: Fields (..., F, E); a missing one is zeros.

    Returns:
        (..., F, E).

    Raises:
        ValueError: A place is not one of the fields, or the number of fields is unknown.

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import ContextGate
    >>> tuple(ContextGate(context=(0, 2))(keras.random.normal((2, 3, 5, 4))).shape)
    (2, 3, 5, 4)
    """

    scales_fields = True

    def __init__(
        self, context: Sequence[int] = (), units: Sequence[int] = (64,), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if isinstance(context, str) or not isinstance(context, Sequence):
            raise ValueError(f"`context` must be a list of places. Received: context={context!r}")
        for index, place in enumerate(context):
            require_not_negative(f"context[{index}]", place)
        self.context = tuple(context)
        self.units = require_sizes("units", units)
        self.network = Mlp(self.units, dtype=self.dtype_policy) if self.context else None

    def build(self, input_shape: Shape) -> None:
        fields, width = input_shape[-2:]
        if fields is None or width is None or max(self.context, default=0) >= fields:
            raise ValueError(
                "`context` must be places of the fields of `inputs`, whose number is known. "
                f"Received: context={list(self.context)}, inputs.shape={tuple(input_shape)}"
            )
        if self.network is not None:
            context_shape = (*input_shape[:-2], len(self.context) * width)
            self.network.build(context_shape)
            self.kernel = self.add_weight(
                shape=(self.network.compute_output_shape(context_shape)[-1], fields * width),
                initializer="glorot_uniform",
                name="kernel",
            )
        self.bias = self.add_weight(shape=(fields, width), initializer="zeros", name="bias")

    def call(self, inputs: Tensor) -> Tensor:
        logits = self.bias
        if self.network is not None:
            shape = ops.shape(inputs)
            context = ops.take(inputs, self.context, axis=-2)
            size = len(self.context) * inputs.shape[-1]
            hidden = self.network(ops.reshape(context, (*shape[:-2], size)))
            logits = ops.reshape(ops.matmul(hidden, self.kernel), shape) + self.bias
        gates = held(2 * ops.sigmoid(logits))
        record_factors(ops.mean(gates, axis=-1))
        return inputs * gates

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


@keras.saving.register_keras_serializable(package="recsys_attn")
class CrossFieldGate(Layer):
    """The fields, and the fields times gates that are linear in all fields.

    `output = [x, x * g]`, `g_ie = sum_j W_ij x_je + b_i`. The gates start at 1.

    Source: Zhu et al., "FINAL: Factorized Interaction Layer for CTR Prediction", SIGIR 2023, the
    field gate of the authors' code.

    Call arguments:
        inputs: Fields (..., F, E); a missing one is zeros, and so is its product.

    Returns:
        (..., 2 F, E).

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import CrossFieldGate
    >>> tuple(CrossFieldGate()(keras.random.normal((2, 3, 5, 4))).shape)
    (2, 3, 10, 4)
    """

    def build(self, input_shape: Shape) -> None:
        fields = input_shape[-2]
        self.kernel = self.add_weight(shape=(fields, fields), initializer="zeros", name="kernel")
        self.bias = self.add_weight(shape=(fields, 1), initializer="ones", name="bias")

    def call(self, inputs: Tensor) -> Tensor:
        gates = ops.matmul(self.kernel, inputs) + self.bias
        return ops.concatenate([inputs, inputs * held(gates)], axis=-2)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-2], 2 * (input_shape[-2] or 0), input_shape[-1])
