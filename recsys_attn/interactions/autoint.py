"""AutoInt: a stack of interacting layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from recsys_attn.attention.layers.head_pruning import take_heads
from recsys_attn.checks import require_positive
from recsys_attn.interactions.interacting_layer import InteractingLayer
from recsys_attn.layer import Layer
from recsys_attn.serialization import with_own_seed
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class AutoInt(Layer):
    """A stack of interacting layers, for interactions of higher order.

    Source: Song et al., "AutoInt: Automatic Feature Interaction Learning via Self-Attentive
    Neural Networks", CIKM 2019, arXiv 1810.11921.

    Args:
        num_layers: Number of interacting layers.
        num_heads, head_dim, mechanism, update, gate, disagreement: Arguments of every
            `InteractingLayer`. Each layer has its own mechanism and gate, and its own seed derived
            from that of the gate.
        kept_heads: The computed heads of each layer, or None for all; `prune_heads` sets it.
            `mechanism` has the parts of all heads.

    Call arguments:
        inputs: (..., F, E).
        field_mask: (..., F), False for missing fields, which no field attends and whose output is
            zero.
        mask: Keras' own mask of the inputs; replaced by `field_mask`.

    Returns:
        (..., F, N * V).

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import AutoInt
    >>> fields = keras.random.normal((2, 3, 5, 16))
    >>> tuple(AutoInt(num_layers=2, num_heads=2, head_dim=8)(fields).shape)
    (2, 3, 5, 16)
    """

    def __init__(
        self,
        num_layers: int = 3,
        num_heads: int = 2,
        head_dim: int | Sequence[int] = 32,
        mechanism: Any = "autoint",
        update: Any = None,
        gate: Any = None,
        disagreement: Any = None,
        kept_heads: Sequence[Sequence[int] | None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        require_positive("num_layers", num_layers)
        kept_heads = [None] * num_layers if kept_heads is None else list(kept_heads)
        if len(kept_heads) != num_layers:
            raise ValueError(
                "`kept_heads` must have an entry for each layer. "
                f"Received: num_layers={num_layers}, kept_heads={kept_heads!r}"
            )
        template = InteractingLayer(
            num_heads,
            head_dim,
            mechanism,
            update,
            gate,
            disagreement,
            dtype=self.dtype_policy,
        )
        excluded = {*keras.layers.Layer().get_config(), "kept_heads"}
        self.options = {k: v for k, v in template.get_config().items() if k not in excluded}
        self.layers = []
        for index, heads in enumerate(kept_heads):
            layer = InteractingLayer(
                **{**self.options, "gate": with_own_seed(self.options["gate"], index)},
                kept_heads=heads,
                dtype=self.dtype_policy,
            )
            if heads is not None:
                take_heads(layer.heads.mechanism, heads)
            self.layers.append(layer)

    def with_layers_without_heads(self, heads_of: Mapping[Any, Sequence[int]]) -> AutoInt:
        """Returns a copy in which some layers have some of their heads."""
        smaller = [
            layer.without_heads(heads_of[layer]) if layer in heads_of else layer
            for layer in self.layers
        ]
        config = {**self.get_config(), "kept_heads": [layer.kept_heads for layer in smaller]}
        return type(self).from_config(config)

    def build(self, input_shape: Shape) -> None:
        for layer in self.layers:
            layer.build(input_shape)
            input_shape = layer.compute_output_shape(input_shape)

    def call(
        self, inputs: Tensor, field_mask: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        field_mask = mask if field_mask is None else field_mask
        x = inputs
        for layer in self.layers:
            x = layer(x, field_mask=field_mask)
        return x

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return self.layers[-1].compute_output_shape(input_shape)

    def compute_output_spec(
        self, inputs: Tensor, field_mask: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return self.layers[-1].compute_output_spec(inputs, field_mask)

    def get_config(self) -> Config:
        heads = [None if x.kept_heads is None else list(x.kept_heads) for x in self.layers]
        return {
            **super().get_config(),
            "num_layers": len(self.layers),
            **self.options,
            "kept_heads": heads if any(heads) else None,
        }
