"""PPNet: towers whose layers are scaled for each user, item or author."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.blocks.constant_in_training import ConstantInTraining
from recsys_attn.blocks.gate_unit import GateUnit
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_positive, require_sizes
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class GatedTowers(Layer):
    """A tower for each task, with a gate in front of each of its layers (PPNet).

    `h_1 = x`, `h_(l+1) = activation(W_l (d_l * h_l) + b_l)`, with the gates
    `d_l = 2 sigmoid(MLP_l([c, x]))` of a condition c, such as the embeddings of user and item, and
    of x, in training without gradient: so the network itself differs between users. The output is
    `d_L * h_L`, the gated input of the task's logit. Each layer of each task has a gate of its own.

    Source: Chang et al., "PEPNet: Parameter and Embedding Personalized Network for Infusing with
    Personalized Prior Information", KDD 2023, arXiv 2302.01115.

    Args:
        num_tasks: Number of tasks.
        units: Sizes of each tower's layers; the last is U.
        condition_size: Size C of the condition, the last numbers of the inputs.
        gate_units: Size of the hidden layer of each gate. More of them for a large condition.
        activation: `"dice"` or any Keras activation, after every layer of the towers.
        dropout: Share of the towers' activations dropped in training. Defaults to 0.

    Call arguments:
        inputs: (..., D + C): x, then the condition.
        where: (...), False for padding, which enters no statistics of rows.

    Returns:
        (..., num_tasks, U).

    Raises:
        ValueError: A number or a size is not positive, there is no layer of a tower, or the inputs
            are not larger than the condition.

    Example:

    >>> import keras
    >>> from recsys_attn.multitask import GatedTowers
    >>> layer = GatedTowers(num_tasks=2, units=(8, 4), condition_size=3)
    >>> tuple(layer(keras.random.normal((5, 7 + 3))).shape)
    (5, 2, 4)
    """

    def __init__(
        self,
        num_tasks: int,
        units: Sequence[int],
        condition_size: int,
        gate_units: int = 64,
        activation: Any = "relu",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_tasks", num_tasks)
        require_positive("condition_size", condition_size)
        require_positive("gate_units", gate_units)
        self.units = require_sizes("units", units)
        if not self.units:
            raise ValueError("`units` must name at least one layer of a tower. Received: ()")
        self.num_tasks = num_tasks
        self.condition_size = condition_size
        self.gate_units = gate_units
        policy = self.dtype_policy
        self.constant = ConstantInTraining(dtype=policy)
        self.layers = [
            [Mlp((size,), activation, dropout, dtype=policy) for size in self.units]
            for _ in range(num_tasks)
        ]
        self.gates = [
            [GateUnit(gate_units, dtype=policy) for _ in (None, *self.units)]
            for _ in range(num_tasks)
        ]

    def build(self, input_shape: Shape) -> None:
        size = (input_shape[-1] or 0) - self.condition_size
        if size < 1:
            raise ValueError(
                "`inputs` must have more numbers than the condition, which are its last ones. "
                f"Received: inputs.shape={tuple(input_shape)}, "
                f"condition_size={self.condition_size}"
            )
        for layers, gates in zip(self.layers, self.gates, strict=True):
            shapes = [(*input_shape[:-1], width) for width in (size, *self.units)]
            for layer, shape in zip(layers, shapes, strict=False):
                layer.build(shape)
            for gate, shape in zip(gates, shapes, strict=True):
                gate.build(shape, input_shape)

    def call(self, inputs: Tensor, where: Tensor | None = None) -> Tensor:
        x, features = (
            inputs[..., : -self.condition_size],
            inputs[..., -self.condition_size :],
        )
        condition = ops.concatenate([features, self.constant(x)], axis=-1)
        outputs = []
        for layers, (first, *gates) in zip(self.layers, self.gates, strict=True):
            h = first(x, condition)
            for layer, gate in zip(layers, gates, strict=True):
                h = gate(layer(h, where=where), condition)
            outputs.append(h)
        return ops.stack(outputs, axis=-2)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.num_tasks, self.units[-1])

    def get_config(self) -> Config:
        layer = self.layers[0][0].get_config()
        shared = {name: layer[name] for name in ("activation", "dropout")}
        return {**super().get_config(), **shared}
