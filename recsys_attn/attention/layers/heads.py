"""Attention between the projections of a multi-head layer."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention import gates, presets
from recsys_attn.attention.core.masks import Masks
from recsys_attn.attention.disagreement import get_disagreement
from recsys_attn.layer import Layer, build_part
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Heads(Layer):
    """Attention of every head, its gate, and the penalty on similar heads.

    Args:
        mechanism: An instance, a name or a config of `recsys_attn.attention.mechanisms` or
            `recsys_attn.attention.presets`.
        gate: An instance, a name or a config of `recsys_attn.attention.gates`; None for none.
        disagreement: A `Disagreement`, its weights such as `{"outputs": 0.1}`, or its config;
            None for none.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        inputs: (B, T, E), the inputs of the query projection, for the gate.
        masks: A `Masks` for the mechanism.
        return_weights: Whether to ask a fast mechanism for weights.

    Returns:
        Output (B, T, N, V) and the weights of the mechanism, or None if it makes none.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.layers.heads import Heads
    >>> query = keras.random.normal((2, 3, 4, 8))
    >>> output, weights = Heads("transformer", gate="hard_concrete")(
    ...     query, query, query, keras.random.normal((2, 3, 16)))
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 3, 4, 8), (2, 4, 3, 3))
    """

    def __init__(
        self,
        mechanism: Any = "transformer",
        gate: Any = None,
        disagreement: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.mechanism = presets.get(mechanism, dtype=self.dtype_policy)
        self.gate = None if gate is None else gates.get(gate, dtype=self.dtype_policy)
        self.disagreement = get_disagreement(disagreement)
        if self.disagreement is not None and self.disagreement.positions:
            self.mechanism.require_weights("The disagreement of positions")

    def build(
        self, query_shape: Shape, key_shape: Shape, value_shape: Shape, inputs_shape: Shape
    ) -> None:
        build_part(self, "mechanism", self.mechanism, query_shape, key_shape, value_shape)
        if self.gate is not None:
            size = (value_shape[-1] or 0) // self.mechanism.projections
            build_part(self, "gate", self.gate, (*query_shape[:3], size), inputs_shape)

    def call(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        inputs: Tensor,
        masks: Masks | None = None,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        masks = masks or Masks()
        output, weights = self.mechanism(
            query, key, value, masks=masks, return_weights=return_weights
        )
        if self.disagreement is not None:
            self.disagreement(value, weights, output, query_mask=masks.query, key_mask=masks.key)
        # A mechanism or a gate given as an instance keeps its own dtype policy.
        return ops.cast(self.gated(output, inputs), self.compute_dtype), weights

    def gated(self, output: Tensor, inputs: Tensor) -> Tensor:
        """Applies the gate to the output of each head."""
        return output if self.gate is None else self.gate(output, inputs)
