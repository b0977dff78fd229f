"""MMoE: experts shared by tasks, with one gate per task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from recsys_attn.attention.layers.head_pruning import require_order_free, slice_heads
from recsys_attn.attention.weightings.softmax import Softmax
from recsys_attn.checks import require_positive, require_sizes, unknown_name
from recsys_attn.constant_factors import held
from recsys_attn.layer import Layer
from recsys_attn.multitask.expert_gates import AttentionGate, InputGate
from recsys_attn.multitask.experts import Experts, output_spec
from recsys_attn.serialization import layer_of, serialize
from recsys_attn.tensors import Config, Shape, Tensor

_GATES = ("attention", "both", "softmax")


@keras.saving.register_keras_serializable(package="recsys_attn")
class MMoE(Layer):
    """Multi-gate mixture of experts, with the paper's gates, attention gates, or both.

    `output[t] = sum_e gate[t, e] expert_e(x)`, with `gate[t] = softmax_e(logits[t])` and

    - `gate="softmax"`: `logits[t] = W_t x`, as in the paper;
    - `gate="attention"`: `logits[t, e] = score(query_t, expert_e(x))`, with one learned query per
    task, for other mechanisms accordingly;
    - `gate="both"`: the sum of the two.

    Experts may have gates of their own, `Experts(..., gate="hard_concrete")`. A gate g multiplies
    the expert's output, and an expert whose gate is 0 is left out of the softmax: the shares of the
    others sum to 1. So `prune_heads` cuts it out, and the layer stays the same.

    Source: Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate
    Mixture-of-Experts", KDD 2018. The attention gate scores the experts' outputs with a task's
    vector, as HAN (Yang et al., NAACL 2016) scores words with its context vector.

    Args:
        num_tasks: Number of tasks.
        num_experts: Number of experts E.
        expert_units: Sizes of each expert's layers; the last is U.
        gate: `"softmax"`, `"attention"` or `"both"`.
        mechanism: Mechanism of the attention gate: an instance, a name or a config of
            `recsys_attn.attention.mechanisms` or `recsys_attn.attention.presets`. Defaults to
            `"transformer"`; `"han"` gives each task a context vector. A mechanism without a query
            is an error, as is one with the gate `"softmax"`.
        activation: Any Keras activation, after every layer of the experts.
        dropout: Share of the experts' activations dropped in training. Defaults to 0.
        experts: An `Experts` with a gate or a penalty of its own, in place of the four arguments
            of experts. Defaults to none.

    Call arguments:
        inputs: (..., D).
        return_gates: Whether to return the gates too.
        where: (...), False for rows that do not count in a penalty.

    Returns:
        (..., num_tasks, U), and with `return_gates` also (..., num_tasks, E).

    Raises:
        TypeError: The experts have gates, and the mechanism cannot honour a mask.
        ValueError: A number or a size is not positive, there is no expert layer, `gate` or
            `mechanism` is unknown or gives all tasks one gate, or `return_gates` is True and the
            mechanism makes no weights.

    Example:

    >>> import keras
    >>> from recsys_attn.multitask import MMoE
    >>> mmoe = MMoE(num_tasks=2, num_experts=4, expert_units=(16, 8), gate="attention")
    >>> tuple(mmoe(keras.random.normal((3, 7, 5))).shape)
    (3, 7, 2, 8)
    """

    def __init__(
        self,
        num_tasks: int,
        num_experts: int = 8,
        expert_units: Sequence[int] = (256, 128),
        gate: str = "softmax",
        mechanism: Any = None,
        activation: Any = "relu",
        dropout: float = 0.0,
        experts: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_tasks", num_tasks)
        if gate not in _GATES:
            raise ValueError(f"Unknown `gate`. {unknown_name(gate, _GATES)}")
        require_sizes("expert_units", expert_units)
        policy = self.dtype_policy
        self.num_tasks = num_tasks
        self.gate = gate
        if experts is None:
            experts = Experts(num_experts, expert_units, activation, dropout, dtype=policy)
        self.experts: Any = layer_of("experts", experts, "return_open", such_as="Experts")
        num_experts = self.experts.num_experts
        self.input_gate: Any = None
        self.attention_gate: Any = None
        self.weighting: Any = None
        if gate != "attention":
            self.input_gate = InputGate(num_tasks, num_experts, dtype=policy)
        if gate != "softmax":
            mechanism = "transformer" if mechanism is None else mechanism
            self.attention_gate = AttentionGate(num_tasks, mechanism, dtype=policy)
        elif mechanism is not None:  # it would have no effect
            raise ValueError(
                "`mechanism` is that of a gate of attention; use gate='attention' or 'both', or "
                f"leave it out. Received: gate='softmax', mechanism={mechanism!r}"
            )
        if gate == "attention":
            self.attention_gate.mechanism.require_distinct_results(
                num_tasks, num_experts, "num_tasks"
            )
        if gate == "both":
            self.attention_gate.mechanism.require_honoured("attention_bias")
        if gate != "softmax" and self.experts.gate is not None:
            self.attention_gate.mechanism.require_honoured("key_mask")
        if gate == "softmax":
            self.weighting = Softmax(dtype=policy)

    @property
    def _has_own_experts(self) -> bool:
        return self.experts.gate is not None or self.experts.disagreement is not None

    @property
    def shared_variables(self) -> list[keras.Variable]:
        """The weights that all tasks share: those of the experts."""
        return list(self.experts.trainable_variables)

    @property
    def returns_gates(self) -> bool:
        """Whether the gates are weights of experts, as not all mechanisms make them."""
        return self.gate == "softmax" or self.attention_gate.mechanism.returns_weights

    def build(self, input_shape: Shape) -> None:
        rows_shape = (None, input_shape[-1])
        self.experts.build(rows_shape)
        if self.input_gate is not None:
            self.input_gate.build(rows_shape)
        if self.attention_gate is not None:
            experts, rows, units = self.experts.compute_output_shape(rows_shape)
            self.attention_gate.build((rows, experts, units))

    def call(self, inputs: Tensor, return_gates: bool = False, where: Tensor | None = None) -> Any:
        if return_gates and self.gate != "softmax":
            self.attention_gate.mechanism.require_weights("`return_gates`")
        leading = ops.shape(inputs)[:-1]
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        counted = None if where is None else ops.reshape(where, (-1,))
        experts, is_open = self.experts(rows, where=counted, return_open=True)
        output, gates = self._mixed(rows, ops.transpose(experts, (1, 0, 2)), is_open)
        output = ops.reshape(output, (*leading, *output.shape[1:]))
        if not return_gates:
            return output
        return output, ops.reshape(gates, (*leading, *gates.shape[1:]))

    def _mixed(self, rows: Tensor, experts: Tensor, is_open: Tensor | None) -> tuple[Tensor, Any]:
        """Mixes the experts' outputs (M, E, U) to (M, T, U); returns the gates (M, T, E) too."""
        if self.gate == "softmax":
            allowed = None if is_open is None else is_open[None, None]
            gates = held(self.weighting(self.input_gate(rows), allowed))
            return ops.matmul(gates, experts), gates
        bias = self.input_gate(rows) if self.gate == "both" else None
        return self.attention_gate(experts, bias=bias, is_open=is_open)

    @property
    def computed_heads(self) -> int:
        """Number of experts, for `prune_heads`."""
        return int(self.experts.num_experts)

    def without_heads(self, keep: Sequence[int]) -> MMoE:
        """Returns an unbuilt copy with some of the experts; `prune_heads` sets its weights."""
        if self.attention_gate is not None:
            require_order_free("The gate's mechanism", self.attention_gate.mechanism)
        experts = {**self.experts.get_config(), "num_experts": len(keep)}
        return type(self).from_config({**self.get_config(), "experts": Experts(**experts)})

    def slice_heads(
        self, weight: Any, value: np.ndarray, shape: Shape, keep: Sequence[int]
    ) -> np.ndarray:
        """Returns the part of a weight that belongs to some of the experts."""
        if self.input_gate is not None and weight is self.input_gate.kernel:
            by_task = value.reshape(len(value), self.num_tasks, -1)
            return by_task[:, :, list(keep)].reshape(len(value), -1)
        return slice_heads(value, shape, self.computed_heads, keep)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.num_tasks, self.experts.units[-1])

    def compute_output_spec(
        self, inputs: Tensor, return_gates: bool = False, where: Tensor | None = None
    ) -> Any:
        return output_spec(self, inputs, return_gates, self.experts.num_experts)

    def get_config(self) -> Config:
        experts = self.experts.get_config()
        return {
            **super().get_config(),
            "num_experts": experts["num_experts"],
            "expert_units": experts["units"],
            "mechanism": serialize(getattr(self.attention_gate, "mechanism", None)),
            "activation": experts["activation"],
            "dropout": experts["dropout"],
            "experts": serialize(self.experts) if self._has_own_experts else None,
        }
