"""CGC and PLE: experts of each task beside shared ones, in layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.weightings.softmax import Softmax
from recsys_attn.checks import require_positive, require_sizes
from recsys_attn.constant_factors import held
from recsys_attn.layer import Layer
from recsys_attn.multitask.expert_gates import InputGate
from recsys_attn.multitask.experts import Experts, output_spec
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class ProgressiveExperts(Layer):
    """Layers of experts, of which each task uses its own and the shared ones.

    In each layer `x_k' = sum_e g_ke expert_e(.)` over the experts of task k, whose input is x_k,
    and the shared ones, whose input is x_s, with `g_k = softmax(W_k x_k)`; and
    `x_s' = sum_e g_se expert_e(.)` over the experts of all tasks and the shared ones, with
    `g_s = softmax(W_s x_s)`. All inputs of the first layer are the same; the last layer has no
    `x_s'`. One layer is Customized Gate Control (CGC), several are Progressive Layered Extraction
    (PLE).

    Source: Tang et al., "Progressive Layered Extraction (PLE): A Novel Multi-Task Learning Model
    for Personalized Recommendations", RecSys 2020.

    Args:
        num_tasks: Number of tasks.
        num_layers: Number of layers; 1 is CGC.
        task_experts: Number of experts of each task in a layer.
        shared_experts: Number of shared experts in a layer. More of them for tasks that are much
            alike.
        expert_units: Sizes of each expert's layers; the last is U.
        activation: Any Keras activation, after every layer of the experts.
        dropout: Share of the experts' activations dropped in training. Defaults to 0.

    Call arguments:
        inputs: (..., D).
        return_gates: Whether to return the gates of the last layer too.
        where: (...), unused: no statistics of rows enter.

    Returns:
        (..., num_tasks, U), and with `return_gates` also (..., num_tasks, E) over the E experts of
        the last layer: those of the first task, of the second, ..., and the shared ones. The share
        of another task's expert is 0.

    Raises:
        ValueError: A number or a size is not positive, or there is no expert layer.

    Example:

    >>> import keras
    >>> from recsys_attn.multitask import ProgressiveExperts
    >>> ple = ProgressiveExperts(num_tasks=2, task_experts=2, shared_experts=1, expert_units=(8,))
    >>> output, gates = ple(keras.random.normal((3, 5)), return_gates=True)
    >>> tuple(output.shape), tuple(gates.shape)
    ((3, 2, 8), (3, 2, 5))
    """

    returns_gates = True

    def __init__(
        self,
        num_tasks: int,
        num_layers: int = 2,
        task_experts: int = 2,
        shared_experts: int = 2,
        expert_units: Sequence[int] = (128, 64),
        activation: Any = "relu",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_tasks", num_tasks)
        require_positive("num_layers", num_layers)
        require_positive("task_experts", task_experts)
        require_positive("shared_experts", shared_experts)
        self.expert_units = require_sizes("expert_units", expert_units)
        self.num_tasks = num_tasks
        self.num_layers = num_layers
        self.task_experts = task_experts
        self.shared_experts = shared_experts
        counts = [task_experts] * num_tasks + [shared_experts]
        policy = self.dtype_policy
        self.experts = [
            [Experts(n, expert_units, activation, dropout, dtype=policy) for n in counts]
            for _ in range(num_layers)
        ]
        counts_of_gates = [task_experts + shared_experts] * num_tasks + [sum(counts)]
        self.gates = [
            [
                InputGate(1, n, dtype=policy)
                for n in counts_of_gates[: num_tasks + (layer < num_layers - 1)]
            ]
            for layer in range(num_layers)
        ]
        self.weighting = Softmax(dtype=policy)

    @property
    def shared_variables(self) -> list[keras.Variable]:
        """The weights of the last layer that all tasks share: those of its shared experts."""
        return list(self.experts[-1][-1].trainable_variables)

    @property
    def task_counts(self) -> list[int]:
        """Number of tasks that may use each expert of the last layer."""
        counts = [1] * (self.num_tasks * self.task_experts)
        return counts + [self.num_tasks] * self.shared_experts

    def build(self, input_shape: Shape) -> None:
        shape = (None, input_shape[-1])
        for experts, gates in zip(self.experts, self.gates, strict=True):
            for part in (*experts, *gates):
                part.build(shape)
            shape = (None, self.expert_units[-1])

    def call(self, inputs: Tensor, return_gates: bool = False, where: Tensor | None = None) -> Any:
        leading = ops.shape(inputs)[:-1]
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        states, shares = [rows] * (self.num_tasks + 1), []
        for experts, gates in zip(self.experts, self.gates, strict=True):
            groups = [expert(x) for expert, x in zip(experts, states, strict=True)]  # (n, M, U)
            seen_by = [[group, groups[-1]] for group in groups[:-1]] + [groups]
            pairs = zip(gates, states, seen_by, strict=False)  # the last layer has no shared gate
            mixed = [self._mixed(gate, x, parts) for gate, x, parts in pairs]
            states, shares = [state for state, _ in mixed], [share for _, share in mixed]
        output = ops.stack(states, axis=1)
        output = ops.reshape(output, (*leading, *output.shape[1:]))
        if not return_gates:
            return output
        every = ops.stack([self._over_all(share, k) for k, share in enumerate(shares)], axis=1)
        return output, ops.reshape(every, (*leading, *every.shape[1:]))

    def _mixed(self, gate: InputGate, x: Tensor, parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Returns the mixture (M, U) of experts, and their shares (M, E)."""
        shares = held(self.weighting(gate(x)))  # (M, 1, E)
        experts = ops.transpose(ops.concatenate(parts, axis=0), (1, 0, 2))
        return ops.matmul(shares, experts)[:, 0], shares[:, 0]

    def _over_all(self, shares: Tensor, task: int) -> Tensor:
        """Returns the shares of a task's own and the shared experts, with zeros for the others."""
        of_task, shared = shares[:, : self.task_experts], shares[:, self.task_experts :]
        none = ops.zeros_like(of_task)
        return ops.concatenate(
            [of_task if k == task else none for k in range(self.num_tasks)] + [shared], axis=-1
        )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.num_tasks, self.expert_units[-1])

    def compute_output_spec(
        self, inputs: Tensor, return_gates: bool = False, where: Tensor | None = None
    ) -> Any:
        count = self.num_tasks * self.task_experts + self.shared_experts
        return output_spec(self, inputs, return_gates, count)

    def get_config(self) -> Config:
        experts = self.experts[0][0].get_config()
        shared = {name: experts[name] for name in ("activation", "dropout")}
        return {**super().get_config(), **shared}
