"""Experts: networks shared by tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.disagreement import get_disagreement
from recsys_attn.attention.gates.base import GATES
from recsys_attn.attention.gates.hard_concrete import HardConcrete
from recsys_attn.backend.dropout import Dropout
from recsys_attn.blocks import activations
from recsys_attn.checks import require_positive, require_share, require_sizes
from recsys_attn.initializers import blockwise
from recsys_attn.layer import Layer, build_part
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Experts(Layer):
    """E networks of equal shape over the same rows, with one product per layer.

    `x_e = dropout(activation(W_e x_e + b_e))`, layer after layer.

    Args:
        num_experts: Number of experts E.
        units: Sizes of each expert's layers.
        activation: Any Keras activation, after every layer.
        dropout: Share of the activations dropped in training. Defaults to 0.
        gate: A `HardConcrete` with one gate per expert, by which its outputs are multiplied: an
            instance, a name or a config. Defaults to none; use it to remove experts.
        disagreement: A penalty on experts with similar outputs, `{"outputs": 0.1}`. Defaults to
            none; experts have no weights and values of their own.

    Call arguments:
        inputs: (M, D).
        where: (M,), False for rows that do not count in the penalty.
        return_open: Whether to return the experts whose gate is above 0 too.

    Returns:
        (E, M, U), experts first, and with `return_open` also (E,), or None without a gate.

    Raises:
        TypeError: `gate` is another gate than `HardConcrete`.
        ValueError: A number or a size is not positive, or `disagreement` has other factors than
            `outputs`.

    Example:

    >>> import keras
    >>> from recsys_attn.multitask import Experts
    >>> tuple(Experts(4, units=(16, 8))(keras.random.normal((3, 5))).shape)
    (4, 3, 8)
    """

    def __init__(
        self,
        num_experts: int,
        units: Sequence[int],
        activation: Any = "relu",
        dropout: float = 0.0,
        gate: Any = None,
        disagreement: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_experts", num_experts)
        self.num_experts = num_experts
        self.units = require_sizes("units", units)
        require_share("dropout", dropout)
        if not self.units:
            raise ValueError("`units` must name at least one layer of an expert. Received: ()")
        self.activation = activations.function("activation", activation)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.gate = None if gate is None else hard_concrete("gate", gate)
        self.disagreement = get_disagreement(disagreement)
        factors = {} if self.disagreement is None else self.disagreement.get_config()
        if factors.get("subspace") or factors.get("positions"):
            raise ValueError(
                "`disagreement` of experts compares outputs: give the factor `outputs` alone. "
                f"Received: subspace={factors['subspace']}, positions={factors['positions']}"
            )

    def build(self, input_shape: Shape) -> None:
        self.kernels, self.biases = [], []
        for index, (size, units) in enumerate(
            zip((input_shape[-1], *self.units), self.units, strict=False)
        ):
            self.kernels.append(
                self.add_weight(
                    shape=(self.num_experts, size, units),
                    initializer=blockwise(self.num_experts, axis=0),
                    name=f"kernel_{index}",
                )
            )
            self.biases.append(
                self.add_weight(
                    shape=(self.num_experts, 1, units), initializer="zeros", name=f"bias_{index}"
                )
            )

        if self.gate is not None:
            build_part(self, "gate", self.gate, (None, None, self.num_experts, self.units[-1]))

    def call(
        self,
        inputs: Tensor,
        where: Tensor | None = None,
        return_open: bool = False,
        training: bool | None = None,
    ) -> Any:
        x = ops.expand_dims(inputs, 0)
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            x = self.dropout(activations.activated(self.activation, ops.matmul(x, kernel) + bias))
        if self.disagreement is not None:
            rows = ops.transpose(x, (1, 0, 2))[None]  # (1, M, E, U)
            self.disagreement(rows, None, rows, query_mask=None if where is None else where[None])
        if self.gate is None:
            return (x, None) if return_open else x
        gates = self.gate.gates(training)
        x = x * ops.cast(gates, x.dtype)[:, None, None]
        return (x, gates > 0) if return_open else x

    def compute_output_spec(
        self, inputs: Tensor, where: Tensor | None = None, return_open: bool = False
    ) -> Any:
        shape = self.compute_output_shape(inputs.shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_open:
            return output
        is_open = keras.KerasTensor((self.num_experts,), dtype="bool")
        return output, None if self.gate is None else is_open

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (self.num_experts, input_shape[0], self.units[-1])


def hard_concrete(name: str, gate: Any) -> HardConcrete:
    """Returns the Hard-Concrete gates of units that are not heads; raises for other gates.

    Args:
        name: The argument, for the error.
        gate: An instance, a name or a config.
    """
    part = GATES.get(gate)
    if not isinstance(part, HardConcrete):
        raise TypeError(
            f"`{name}` must be a HardConcrete, the gate that closes experts and fields, its name "
            f"or its config. Received: {name}={gate!r}"
        )
    return part


def output_spec(layer: Layer, inputs: Tensor, return_gates: bool, count: int) -> Any:
    """Returns the symbolic output of a layer of tasks, and with `return_gates` `count` gates."""
    shape = layer.compute_output_shape(inputs.shape)
    output = keras.KerasTensor(shape, dtype=layer.compute_dtype)
    if not return_gates:
        return output
    return output, keras.KerasTensor((*shape[:-1], count), dtype=layer.compute_dtype)
