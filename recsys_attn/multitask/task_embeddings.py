"""STEM: experts over embeddings of their own task, and a gradient that stays there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.weightings.softmax import Softmax
from recsys_attn.blocks.constant_in_training import ConstantInTraining
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_positive, require_sizes
from recsys_attn.constant_factors import held
from recsys_attn.layer import Layer
from recsys_attn.multitask.experts import Experts, output_spec
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class TaskEmbeddingExperts(Layer):
    """Experts over shared and task-specific embeddings, with STEM's gates.

    Of `x_0`, the shared embeddings, and `x_k`, those of task k, for `k = 1 ... K`:

    `output_k = sum_e g_ke expert_e`, `g_k = softmax(MLP_k(x_k + x_0))`, over the experts of all
    tasks, each over the embeddings of its own, and the shared ones over `x_0`. All of them enter
    forwards, but backwards those of other tasks are constants: the embeddings and the experts of a
    task learn from this task alone.

    The channels of a table stand together: number `(K + 1) c + k` of the inputs is channel c of
    `x_k`. So each feature has one vector of `(K + 1) E` numbers, from one look-up.

    Source: Su et al., "STEM: Unleashing the Power of Embeddings for Multi-task Recommendation",
    AAAI 2024, arXiv 2308.13537; the input of the gates is that of the authors' code.

    Args:
        num_tasks: Number of tasks K.
        task_experts: Number of experts of each task.
        shared_experts: Number of shared experts. More of them for tasks that are much alike.
        expert_units: Sizes of each expert's layers; the last is U.
        gate_units: Sizes of the hidden layers of each gate.
        activation: Any Keras activation, of experts and gates.
        dropout: Share of the activations dropped in training. Defaults to 0.

    Call arguments:
        inputs: (..., (K + 1) D).
        return_gates: Whether to return the gates too.
        where: (...), False for padding, which enters no statistics of rows.

    Returns:
        (..., num_tasks, U), and with `return_gates` also (..., num_tasks, E) over the experts of
        the first task, of the second, ..., and the shared ones.

    Raises:
        ValueError: A number or a size is not positive, there is no expert layer, or the size of
            the inputs is no multiple of K + 1.

    Example:

    >>> import keras
    >>> from recsys_attn.multitask import TaskEmbeddingExperts
    >>> stem = TaskEmbeddingExperts(num_tasks=2, shared_experts=3, expert_units=(8,))
    >>> output, gates = stem(keras.random.normal((5, 3 * 7)), return_gates=True)
    >>> tuple(output.shape), tuple(gates.shape)
    ((5, 2, 8), (5, 2, 5))
    """

    returns_gates = True

    def __init__(
        self,
        num_tasks: int,
        task_experts: int = 1,
        shared_experts: int = 8,
        expert_units: Sequence[int] = (512, 512, 512),
        gate_units: Sequence[int] = (128, 64),
        activation: Any = "relu",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_tasks", num_tasks)
        require_positive("task_experts", task_experts)
        require_positive("shared_experts", shared_experts)
        self.num_tasks = num_tasks
        self.task_experts = task_experts
        self.shared_experts = shared_experts
        self.expert_units = require_sizes("expert_units", expert_units)
        self.gate_units = require_sizes("gate_units", gate_units)
        policy = self.dtype_policy
        self.constant = ConstantInTraining(dtype=policy)
        self.experts = [  # of each embedding: the shared one comes first
            Experts(count, expert_units, activation, dropout, dtype=policy)
            for count in (shared_experts, *[task_experts] * num_tasks)
        ]
        tasks = range(num_tasks)
        self.gates = [Mlp(gate_units, activation, dropout, dtype=policy) for _ in tasks]
        self.logits = [keras.layers.Dense(self.num_experts, dtype=policy) for _ in tasks]
        self.weighting = Softmax(dtype=policy)

    @property
    def shared_variables(self) -> list[keras.Variable]:
        """The weights that all tasks share: those of the shared experts."""
        return list(self.experts[0].trainable_variables)

    @property
    def num_experts(self) -> int:
        """Number of experts of all tasks, and shared ones."""
        return self.num_tasks * self.task_experts + self.shared_experts

    def build(self, input_shape: Shape) -> None:
        parts, size = self.num_tasks + 1, input_shape[-1] or 0
        if not size or size % parts:
            raise ValueError(
                f"`inputs` must have a multiple of {parts} numbers: as many embeddings as tasks, "
                f"and the shared one. Received: inputs.shape={tuple(input_shape)}"
            )
        shape = (None, size // parts)
        for part in (*self.experts, *self.gates):
            part.build(shape)
        for logits in self.logits:
            logits.build((None, (*shape, *self.gate_units)[-1]))

    def call(self, inputs: Tensor, return_gates: bool = False, where: Tensor | None = None) -> Any:
        leading = ops.shape(inputs)[:-1]
        parts = self.num_tasks + 1
        rows = ops.reshape(inputs, (-1, inputs.shape[-1] // parts, parts))
        shared, *by_task = ops.unstack(rows, parts, axis=-1)
        counted = None if where is None else ops.reshape(where, (-1,))
        of_shared, *of_tasks = (
            ops.transpose(experts(x), (1, 0, 2))  # (M, n, U)
            for experts, x in zip(self.experts, (shared, *by_task), strict=True)
        )
        constant = [self.constant(embedding) for embedding in of_tasks]
        outputs, gates = [], []
        for task, (x, gate) in enumerate(zip(by_task, self.gates, strict=True)):
            hidden = gate(x + shared, where=counted)
            gates.append(held(self.weighting(self.logits[task](hidden))))
            embeddings = [*constant[:task], of_tasks[task], *constant[task + 1 :], of_shared]
            experts = ops.concatenate(embeddings, axis=1)
            outputs.append(ops.matmul(gates[-1][:, None], experts)[:, 0])
        output = ops.stack(outputs, axis=1)
        output = ops.reshape(output, (*leading, *output.shape[1:]))
        if not return_gates:
            return output
        shares = ops.stack(gates, axis=1)
        return output, ops.reshape(shares, (*leading, *shares.shape[1:]))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.num_tasks, self.expert_units[-1])

    def compute_output_spec(
        self, inputs: Tensor, return_gates: bool = False, where: Tensor | None = None
    ) -> Any:
        return output_spec(self, inputs, return_gates, self.num_experts)

    def get_config(self) -> Config:
        experts = self.experts[0].get_config()
        shared = {name: experts[name] for name in ("activation", "dropout")}
        return {**super().get_config(), **shared}
