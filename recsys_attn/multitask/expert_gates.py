"""Gates of MMoE: the share of each expert for a task."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention import presets
from recsys_attn.attention.core.places import after_the_last
from recsys_attn.checks import require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.layer import Layer, build_part
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class InputGate(Layer):
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
        # One matrix product; each task has a block of columns.
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


@keras.saving.register_keras_serializable(package="recsys_attn")
class AttentionGate(Layer):
    """Attention of tasks to the experts' outputs: `output[t] = attention(query_t, experts(x))`.

    Each task has one learned query. With the mechanism `"han"` it is HAN's context vector:
    `gate[t, e] = softmax_e(query_t . tanh(W expert_e(x) + b))`. The gate sees the inputs only
    through the experts, so its size does not depend on the number of experts, and equal experts get
    equal weights. For a positional mechanism, experts stand at 0 ... E-1 and all tasks right after
    them.

    Args:
        num_tasks: Number of tasks T.
        mechanism: An instance, a name or a config of `recsys_attn.attention.mechanisms` or
            `recsys_attn.attention.presets`.

    Call arguments:
        experts: (M, E, U), the outputs of `Experts` with the rows first.
        bias: (M, T, E), added to the scores.
        is_open: (E,), False for experts that no task attends.

    Returns:
        (M, T, U), and the gates (M, T, E), or None if the mechanism makes no weights.

    Raises:
        ValueError: There is no bias, and the mechanism gives all of several tasks the same gate.

    Example:

    >>> import keras
    >>> from recsys_attn.multitask import AttentionGate
    >>> gate = AttentionGate(num_tasks=2, mechanism={"class_name": "dense",
    ...     "config": {"score": "additive", "weighting": "sparsemax"}})
    >>> output, gates = gate(keras.random.normal((3, 4, 5)))
    >>> tuple(output.shape), tuple(gates.shape)
    ((3, 2, 5), (3, 2, 4))
    """

    def __init__(self, num_tasks: int, mechanism: Any = "transformer", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("num_tasks", num_tasks)
        self.num_tasks = num_tasks
        self.mechanism = presets.get(mechanism, dtype=self.dtype_policy).as_cross_attention()

    def build(self, experts_shape: Shape) -> None:
        size = experts_shape[-1]
        if size is None:
            raise ValueError(
                "The width U of the experts' outputs must be known when the gate is built. "
                f"Received: experts.shape={tuple(experts_shape)}"
            )
        self.queries = self.add_weight(
            shape=(self.num_tasks, size),
            # Not zeros, with which all tasks would start with the same gate.
            initializer=keras.initializers.RandomNormal(stddev=size**-0.5),
            name="queries",
        )
        experts = (*experts_shape[:2], 1, size)
        build_part(
            self, "mechanism", self.mechanism, (1, self.num_tasks, 1, size), experts, experts
        )

    def call(
        self, experts: Tensor, bias: Tensor | None = None, is_open: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        if bias is not None:
            self.mechanism.require_honoured("attention_bias")
        else:
            self.mechanism.require_distinct_results(self.num_tasks, experts.shape[1], "num_tasks")
        keys = ops.expand_dims(experts, 2)
        queries = ops.cast(self.queries, self.compute_dtype)[None, :, None]
        output, weights = self.mechanism(
            queries,
            keys,
            keys,
            attention_bias=bias,
            key_mask=None if is_open is None else is_open[None],
            **after_the_last(self.mechanism, queries, keys, None),
        )
        output = ops.cast(ops.squeeze(output, 2), self.compute_dtype)
        return output, None if weights is None else ops.squeeze(weights, 1)
