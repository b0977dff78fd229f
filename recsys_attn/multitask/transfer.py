"""AITM: the tower of each task passes information on to that of the next task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.weightings.softmax import Softmax
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_positive, require_sizes
from recsys_attn.constant_factors import held
from recsys_attn.initializers import blockwise
from recsys_attn.layer import Layer
from recsys_attn.multitask.experts import output_spec
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class AdaptiveTransfer(Layer):
    """A tower for each of several ordered tasks, and attention to the task before.

    With the tower outputs `q_k = tower_k(x)`, `z_1 = q_1`, and the vector from task k - 1,
    `p = g_k(z_(k-1))`, a layer with ReLU:

    `z_k = sum_(u in {p, q_k}) w_u V_k u`, `w = softmax_u((Q_k u) . (K_k u) / sqrt(U))`

    so a task takes over as much of the one before as it can use.

    Source: Xi et al., "Modeling the Sequential Dependence among Audience Multi-step Conversions
    with Multi-task Learning in Targeted Display Advertising", KDD 2021, arXiv 2105.08489.

    Args:
        num_tasks: Number of tasks, at least two, in their order: click, cart, buy.
        units: Sizes of each tower's layers; the last is U.
        activation: Any Keras activation, of the towers.
        dropout: Share of the activations dropped in training. Defaults to 0.

    Call arguments:
        inputs: (..., D).
        return_gates: Whether to return the weights too.
        where: (...), False for padding, which enters no statistics of rows.

    Returns:
        (..., num_tasks, U), and with `return_gates` also (..., num_tasks, 2): the weights of
        the vector from the task before and of the task's own tower; 0 and 1 for the first task.

    Raises:
        ValueError: There is one task only, no layer of a tower, or a size is not positive.

    Example:

    >>> import keras
    >>> from recsys_attn.multitask import AdaptiveTransfer
    >>> layer = AdaptiveTransfer(num_tasks=3, units=(8, 4))
    >>> output, weights = layer(keras.random.normal((2, 5)), return_gates=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 3, 4), (2, 3, 2))
    """

    returns_gates = True

    def __init__(
        self,
        num_tasks: int,
        units: Sequence[int] = (128, 64, 32),
        activation: Any = "relu",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_tasks", num_tasks)
        if num_tasks < 2:
            raise ValueError(
                "`num_tasks` must be at least 2, since each task learns from the one before. "
                f"Received: num_tasks={num_tasks}"
            )
        self.units = require_sizes("units", units)
        if not self.units:
            raise ValueError("`units` must name at least one layer of a tower. Received: ()")
        self.num_tasks = num_tasks
        policy, size = self.dtype_policy, self.units[-1]
        self.towers = [Mlp(units, activation, dropout, dtype=policy) for _ in range(num_tasks)]
        self.passed_on = [Mlp((size,), dropout=dropout, dtype=policy) for _ in range(num_tasks - 1)]
        self.weighting = Softmax(dtype=policy)

    def build(self, input_shape: Shape) -> None:
        size = self.units[-1]
        for tower in self.towers:
            tower.build(input_shape)
        self.kernels = []
        for index, layer in enumerate(self.passed_on):
            layer.build((*input_shape[:-1], size))
            kernel = self.add_weight(
                shape=(size, 3 * size), initializer=blockwise(3, axis=1), name=f"kernel_{index}"
            )
            self.kernels.append(kernel)

    def call(self, inputs: Tensor, return_gates: bool = False, where: Tensor | None = None) -> Any:
        first, *others = (tower(inputs, where=where) for tower in self.towers)
        states, none = [first], ops.zeros_like(first[..., :1])
        shares = [ops.concatenate([none, none + 1], axis=-1)]
        for state, passed_on, kernel in zip(others, self.passed_on, self.kernels, strict=True):
            parts = ops.stack([passed_on(states[-1], where=where), state], axis=-2)
            query, key, value = ops.split(ops.matmul(parts, kernel), 3, axis=-1)
            logits = ops.sum(query * key, axis=-1) / math.sqrt(self.units[-1])
            shares.append(held(self.weighting(logits)))
            states.append(ops.sum(shares[-1][..., None] * value, axis=-2))
        output = ops.stack(states, axis=-2)
        return (output, ops.stack(shares, axis=-2)) if return_gates else output

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.num_tasks, self.units[-1])

    def compute_output_spec(
        self, inputs: Tensor, return_gates: bool = False, where: Tensor | None = None
    ) -> Any:
        return output_spec(self, inputs, return_gates, 2)

    def get_config(self) -> Config:
        tower = self.towers[0].get_config()
        shared = {name: tower[name] for name in ("activation", "dropout")}
        return {**super().get_config(), **shared}
