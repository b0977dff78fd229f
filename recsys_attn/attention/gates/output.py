"""A gate that depends on the inputs."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.gates.base import GATES, require_known_heads
from recsys_attn.blocks import activations
from recsys_attn.checks import require_bool
from recsys_attn.constant_factors import held
from recsys_attn.initializers import blockwise
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor

_EPSILON = 1e-6


@GATES.register("output")
class OutputGate(Layer):
    """`output = heads * activation(W inputs)`, with one matrix W per head.

    With `normalise` it is `norm(heads) * activation(W inputs)`, as in HSTU; the norm subtracts the
    mean of all heads' channels and divides by their deviation.

    Source: Qiu et al., "Gated Attention for Large Language Models: Non-linearity, Sparsity, and
    Attention-Sink-Free", 2025, arXiv 2505.06708; with the activation `"silu"` it is the gate of
    Zhai et al., "Actions Speak Louder than Words", ICML 2024, arXiv 2402.17152.

    Args:
        activation: Any Keras activation. Defaults to `"sigmoid"`.
        per_channel: Whether each channel of a head has its own gate, or a head has one gate.
            Defaults to True.
        normalise: Whether to normalise the heads together before the gate. Set it where attention
            does not divide by the sum of its weights, as in HSTU. Defaults to False.

    Call arguments:
        heads: (B, T, N, V), the output of each head.
        inputs: (B, T, E), the inputs of the query projection.

    Returns:
        (B, T, N, V).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.gates import OutputGate
    >>> heads, inputs = keras.random.normal((2, 3, 4, 8)), keras.random.normal((2, 3, 16))
    >>> tuple(OutputGate("silu")(heads, inputs).shape)
    (2, 3, 4, 8)
    """

    # Of W; set before `build`, as that of `MultiHeadAttention`.
    kernel_initializer: str | Config = "glorot_uniform"

    def __init__(
        self,
        activation: Any = "sigmoid",
        per_channel: bool = True,
        normalise: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.activation = activations.serialize(activation)
        self.activate = activations.function("activation", self.activation)
        require_bool("per_channel", per_channel)
        self.per_channel = per_channel
        require_bool("normalise", normalise)
        self.normalise = normalise

    def build(self, heads_shape: Shape, inputs_shape: Shape) -> None:
        require_known_heads(heads_shape)
        heads, size = heads_shape[2] or 1, heads_shape[3] if self.per_channel else 1
        if size is None or inputs_shape[-1] is None:
            raise ValueError(
                "The head size V and the width E of the inputs must be known when the gate is "
                f"built. Received: heads.shape={tuple(heads_shape)}, "
                f"inputs.shape={tuple(inputs_shape)}"
            )
        self.kernel = self.add_weight(
            shape=(heads, inputs_shape[-1], size),
            initializer=blockwise(heads, axis=0, initializer=self.kernel_initializer),
            name="kernel",
        )

    def call(self, heads: Tensor, inputs: Tensor) -> Tensor:
        if self.normalise:
            wide = ops.cast(heads, "float32")
            mean, variance = ops.moments(wide, axes=(-2, -1), keepdims=True)
            heads = ops.cast((wide - mean) * held(ops.rsqrt(variance + _EPSILON)), heads.dtype)
        return heads * held(self.activate(ops.einsum("bte,nev->btnv", inputs, self.kernel)))

    def compute_output_shape(self, heads_shape: Shape, inputs_shape: Shape) -> Shape:
        return heads_shape
