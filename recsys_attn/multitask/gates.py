"""What decides how much of each expert a task takes: layers to logits (M, T, E)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention import scores
from recsys_attn.checks import require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class InputGate(keras.layers.Layer):
    """MMoE's gate: `logits[t] = W_t x`, linear in the inputs and without bias.

    Source: Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate
    Mixture-of-Experts", KDD 2018.

    Args:
        num_tasks: Number of tasks T.
        num_experts: Number of experts E.

    Call arguments:
        inputs: (M, D).

    Returns:
        Logits (M, T, E).

    Example:

    >>> import keras
    >>> from recsys_attn.multitask import InputGate
    >>> tuple(InputGate(num_tasks=2, num_experts=4)(keras.random.normal((3, 5))).shape)
    (3, 2, 4)
    """

    def __init__(self, num_tasks: int, num_experts: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("num_tasks", num_tasks)
        require_positive("num_experts", num_experts)
        self.num_tasks = num_tasks
        self.num_experts = num_experts

    def build(self, input_shape: Shape) -> None:
        # One matrix product for all tasks, each with a block of columns.
        self.kernel = self.add_weight(
            shape=(input_shape[-1], self.num_tasks * self.num_experts),
            initializer=blockwise(self.num_tasks, axis=1),
            name="kernel",
        )

    def call(self, inputs: Tensor) -> Tensor:
        logits = ops.matmul(inputs, self.kernel)
        return ops.reshape(logits, (-1, self.num_tasks, self.num_experts))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (input_shape[0], self.num_tasks, self.num_experts)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_tasks": self.num_tasks,
            "num_experts": self.num_experts,
        }


@keras.saving.register_keras_serializable(package="recsys_attn")
class AttentionGate(keras.layers.Layer):
    """Tasks attend to the experts' outputs: `logits[t, e] = score(query_t, experts_e(x))`.

    Each task has one learned query. The inputs reach the gate only through the experts, so that
    its size does not depend on their number, and equal experts are weighted equally.

    Args:
        num_tasks: Number of tasks T.
        score: An instance, a name or a config of `recsys_attn.attention.scores`.

    Call arguments:
        experts: (E, M, U), the outputs of `Experts`.

    Returns:
        Logits (M, T, E).

    Example:

    >>> import keras
    >>> from recsys_attn.multitask import AttentionGate
    >>> tuple(AttentionGate(num_tasks=2, score="additive")(keras.random.normal((4, 3, 5))).shape)
    (3, 2, 4)
    """

    def __init__(self, num_tasks: int, score: Any = "scaled_dot", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("num_tasks", num_tasks)
        self.num_tasks = num_tasks
        self.score = scores.get(score, dtype=self.dtype_policy)

    def build(self, experts_shape: Shape) -> None:
        size = experts_shape[-1]
        if size is None:
            raise ValueError(
                "The width U of the experts' outputs must be known when the gate is built. "
                f"Received: experts.shape={tuple(experts_shape)}"
            )
        self.queries = self.add_weight(
            shape=(self.num_tasks, size),
            # Not zeros, with which every task would start with the same gate.
            initializer=keras.initializers.RandomNormal(stddev=size**-0.5),
            name="queries",
        )
        if not self.score.built:  # it may be shared
            self.score.build((1, self.num_tasks, 1, size), (1, None, 1, size))

    def call(self, experts: Tensor) -> Tensor:
        count, rows, size = ops.shape(experts)
        # The queries are the same for all rows, so all outputs are the keys of one request.
        logits = self.score(
            ops.reshape(self.queries, (1, self.num_tasks, 1, size)),
            ops.reshape(experts, (1, -1, 1, size)),
        )
        return ops.transpose(ops.reshape(logits, (self.num_tasks, count, rows)), (2, 0, 1))

    def compute_output_shape(self, experts_shape: Shape) -> Shape:
        return (experts_shape[1], self.num_tasks, experts_shape[0])

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "num_tasks": self.num_tasks,
            "score": serialize(self.score),
        }
