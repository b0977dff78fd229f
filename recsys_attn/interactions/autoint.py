"""AutoInt: feature fields attend to each other."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.attend import shares_query_and_key
from recsys_attn.attention.heads import Heads
from recsys_attn.checks import require_bool, require_mask_of, require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.serialization import with_own_seed
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class InteractingLayer(keras.layers.Layer):
    """Multi-head self-attention over feature fields, as AutoInt has it.

    `output[m] = relu(concat_h(sum_k softmax_k(W_Q^h e_m . W_K^h e_k) W_V^h e_k) + W_Res e_m)`

    No scale, no bias and no projection after the heads; the residual is inside the ReLU. Any
    other mechanism takes the place of the softmax over dot products.

    Source: Song et al., "AutoInt: Automatic Feature Interaction Learning via Self-Attentive
    Neural Networks", CIKM 2019, arXiv 1810.11921. The authors' code differs from the paper: it
    has biases, ReLU after each projection, a scale, and a layer normalisation at the end.

    Args:
        num_heads: Number of heads N.
        head_dim: Size of a head H.
        mechanism: An instance, a name or a config of `recsys_attn.attention.mechanisms` or
            `recsys_attn.attention.presets`.
        use_residual: Whether to add `W_Res e_m`.
        gate: Which heads count: of `recsys_attn.attention.gates`.
        disagreement: A `Disagreement`, which keeps heads from being alike.

    Call arguments:
        inputs: (..., F, E).
        field_mask: (..., F), False for missing fields: none attends to them, and they get zeros.

    Returns:
        (..., F, N * H).

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import InteractingLayer
    >>> fields = keras.random.normal((2, 3, 5, 16))
    >>> tuple(InteractingLayer(num_heads=2, head_dim=8)(fields).shape)
    (2, 3, 5, 16)
    """

    def __init__(
        self,
        num_heads: int = 2,
        head_dim: int = 32,
        mechanism: Any = "autoint",
        use_residual: bool = True,
        gate: Any = None,
        disagreement: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_heads", num_heads)
        require_positive("head_dim", head_dim)
        require_bool("use_residual", use_residual)
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.use_residual = use_residual
        self.heads = Heads(mechanism, gate, disagreement, dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) < 3 or input_shape[-1] is None:
            raise ValueError(
                "`inputs` must have shape (..., F, E) with at least one axis before the fields "
                f"and a known width E. Received: inputs.shape={tuple(input_shape)}"
            )
        # W_Q, W_K, W_V and W_Res side by side; there is no W_K where the mechanism looks at one
        # projection from both sides.
        self.kernel = self.add_weight(
            shape=(input_shape[-1], self._parts * self.num_heads * self.head_dim),
            initializer=blockwise(self._parts, axis=1),
            name="kernel",
        )
        per_head = (None, input_shape[-2], self.num_heads, self.head_dim)
        self.heads.build(per_head, per_head, per_head, (None, *input_shape[-2:]))

    def call(self, inputs: Tensor, field_mask: Tensor | None = None) -> Tensor:
        shape = ops.shape(inputs)
        fields, size = shape[-2], self.num_heads * self.head_dim
        present = None
        require_mask_of("field_mask", field_mask, inputs)
        if field_mask is not None:
            present = ops.reshape(field_mask, (-1, fields))
        flat = ops.reshape(inputs, (-1, inputs.shape[-1]))
        # To split one product costs more than it saves: it copies what the product has written.
        parts = [ops.matmul(flat, kernel) for kernel in ops.split(self.kernel, self._parts, 1)]
        per_head = (-1, fields, self.num_heads, self.head_dim)
        query, *others = [ops.reshape(part, per_head) for part in parts]
        key, value = (query, others[0]) if self._shared else others[:2]
        output, _ = self.heads(
            query,
            key,
            value,
            ops.reshape(inputs, (-1, fields, inputs.shape[-1])),
            # Missing fields become zeros below; only the penalty must not count them before.
            query_mask=present if self.heads.disagreement is not None else None,
            key_mask=present,
        )
        output = ops.reshape(output, (-1, size))
        if self.use_residual:
            output = output + parts[-1]
        output = ops.reshape(ops.relu(output), (*shape[:-1], size))
        if field_mask is not None:
            output = output * ops.cast(field_mask, output.dtype)[..., None]
        return output

    @property
    def _shared(self) -> bool:
        return shares_query_and_key(self.heads.mechanism)

    @property
    def _parts(self) -> int:
        return 3 - self._shared + self.use_residual

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.num_heads * self.head_dim)

    def compute_output_spec(self, inputs: Tensor, field_mask: Tensor | None = None) -> Tensor:
        require_mask_of("field_mask", field_mask, inputs)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def get_config(self) -> Config:
        heads = self.heads.get_config()
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "mechanism": heads["mechanism"],
            "use_residual": self.use_residual,
            "gate": heads["gate"],
            "disagreement": heads["disagreement"],
        }


@keras.saving.register_keras_serializable(package="recsys_attn")
class AutoInt(keras.layers.Layer):
    """Interacting layers, each of which combines what the one before has combined.

    Source: Song et al., "AutoInt: Automatic Feature Interaction Learning via Self-Attentive
    Neural Networks", CIKM 2019, arXiv 1810.11921.

    Args:
        num_layers: Number of interacting layers.
        num_heads, head_dim, mechanism, use_residual, gate, disagreement: Of every
            `InteractingLayer`, each of which has a mechanism and a gate of its own; from a
            gate's seed each layer draws one of its own.

    Call arguments:
        inputs: (..., F, E).
        field_mask: (..., F), False for missing fields: none attends to them, and they get zeros.

    Returns:
        (..., F, N * H).

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
        head_dim: int = 32,
        mechanism: Any = "autoint",
        use_residual: bool = True,
        gate: Any = None,
        disagreement: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_layers", num_layers)
        template = InteractingLayer(
            num_heads,
            head_dim,
            mechanism,
            use_residual,
            gate,
            disagreement,
            dtype=self.dtype_policy,
        )
        own = keras.layers.Layer().get_config()
        self.options = {k: v for k, v in template.get_config().items() if k not in own}
        self.layers = [
            InteractingLayer(
                **{**self.options, "gate": with_own_seed(self.options["gate"], index)},
                dtype=self.dtype_policy,
            )
            for index in range(num_layers)
        ]

    def build(self, input_shape: Shape) -> None:
        for layer in self.layers:
            layer.build(input_shape)
            input_shape = layer.compute_output_shape(input_shape)

    def call(self, inputs: Tensor, field_mask: Tensor | None = None) -> Tensor:
        x = inputs
        for layer in self.layers:
            x = layer(x, field_mask=field_mask)
        return x

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return self.layers[-1].compute_output_shape(input_shape)

    def compute_output_spec(self, inputs: Tensor, field_mask: Tensor | None = None) -> Tensor:
        return self.layers[-1].compute_output_spec(inputs, field_mask)

    def get_config(self) -> Config:
        return {**super().get_config(), "num_layers": len(self.layers), **self.options}
