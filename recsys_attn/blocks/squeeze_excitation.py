"""Squeeze-and-excitation: weights of whole fields or channels from their means."""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras import ops

from recsys_attn.blocks import activations
from recsys_attn.blocks.mixers import MIXERS
from recsys_attn.checks import require_mask_of, require_positive, unknown_name
from recsys_attn.constant_factors import held
from recsys_attn.field_factors import record_factors
from recsys_attn.layer import Layer
from recsys_attn.masked_mean import masked_mean
from recsys_attn.tensors import Config, Shape, Tensor

_ACTIVATIONS = {"fields": "relu", "channels": "sigmoid"}  # those of the papers


@keras.saving.register_keras_serializable(package="recsys_attn")
class SqueezeExcitation(Layer):
    """Multiplies each field, or each channel, by a weight that depends on all of them.

    `output = a * x`, `a = activation(W_2 relu(W_1 z))`; over fields `z[f] = mean_e x[f, e]`
    (SENET in FiBiNET), over channels `z[e] = mean_s x[s, e]`.

    Sources: over fields: Huang et al., "FiBiNET: Combining Feature Importance and Bilinear Feature
    Interaction for Click-Through Rate Prediction", RecSys 2019, arXiv 1905.09433; over channels:
    Hu et al., "Squeeze-and-Excitation Networks", CVPR 2018, arXiv 1709.01507.

    Args:
        over: `"fields"`: a weight for each of F fields, of which there is a fixed number;
            `"channels"`: a weight for each of E channels, from a sequence of any length.
        reduction: The hidden layer has the number of weights divided by it, at least 1.
        activation: Of the weights. Defaults to that of the paper: `"relu"` over fields, which can
            shut a field for good, `"sigmoid"` over channels.

    Call arguments:
        inputs: (..., F, E) or (..., S, E).
        present: (..., F) or (..., S), False for missing fields or padding, whose output is zero
            and which reach no weight.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        The shape of the inputs.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks import SqueezeExcitation
    >>> fields = keras.random.normal((2, 3, 39, 8))
    >>> tuple(SqueezeExcitation()(fields).shape)
    (2, 3, 39, 8)
    """

    def __init__(
        self, over: str = "fields", reduction: int = 3, activation: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if over not in _ACTIVATIONS:
            raise ValueError(f"`over` must be a name. {unknown_name(over, _ACTIVATIONS)}")
        require_positive("reduction", reduction)
        self.over = over
        self.reduction = reduction
        self.activation = activation
        self._activation = activations.function("activation", activation or _ACTIVATIONS[over])

    @property
    def scales_fields(self) -> bool:
        """Whether the weights are those of fields."""
        return self.over == "fields"

    def build(self, input_shape: Shape) -> None:
        count = input_shape[-2 if self.over == "fields" else -1]
        if count is None:
            raise ValueError(
                f"The number of {self.over} must be known when the layer is built. "
                f"Received: inputs.shape={tuple(input_shape)}"
            )
        hidden = max(1, count // self.reduction)
        self.squeeze_kernel = self.add_weight(
            shape=(count, hidden), initializer="glorot_uniform", name="squeeze_kernel"
        )
        self.excite_kernel = self.add_weight(
            shape=(hidden, count), initializer="glorot_uniform", name="excite_kernel"
        )

    def call(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        present = mask if present is None else present
        require_mask_of("present", present, inputs)
        if present is not None:
            is_present = ops.cast(present, "bool")[..., None]
            inputs = ops.where(is_present, inputs, ops.zeros_like(inputs))
        if self.over == "fields":
            means = ops.mean(inputs, axis=-1)
        elif present is None:
            means = ops.mean(inputs, axis=-2)
        else:
            means = masked_mean(inputs, present)[..., 0, :]
        hidden = ops.relu(ops.matmul(means, self.squeeze_kernel))
        weights = held(self._activation(ops.matmul(hidden, self.excite_kernel)))
        if self.scales_fields:
            record_factors(weights)
        return inputs * ops.expand_dims(weights, -1 if self.over == "fields" else -2)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def compute_output_spec(
        self, inputs: Tensor, present: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        require_mask_of("present", present, inputs)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def get_config(self) -> Config:
        activation = keras.activations.serialize(self._activation)
        return {**super().get_config(), "activation": activation}


MIXERS.members["squeeze_excitation"] = functools.partial(SqueezeExcitation, over="channels")
