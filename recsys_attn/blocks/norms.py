"""Normalisations of Transformer blocks, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.blocks.film import ConditionalNorm
from recsys_attn.constant_factors import factors_are_constant
from recsys_attn.registry import Registry
from recsys_attn.serialization import nameless, serialize, takes
from recsys_attn.tensors import Shape, Tensor

NORMS = Registry("a normalisation", "norms")
ROW_NORMS = ("layer", "none", "rms")  # of each row alone, without a condition
_STATISTICS = ("moving_mean", "moving_variance")  # states of batch normalisation and of Dice


def _layer(epsilon: float = 1e-6, **kwargs: Any) -> keras.layers.LayerNormalization:
    """`(x - mean) / sqrt(variance + epsilon) * scale + offset`: Ba et al., arXiv 1607.06450."""
    return keras.layers.LayerNormalization(epsilon=epsilon, **kwargs)


def _rms(epsilon: float = 1e-6, **kwargs: Any) -> keras.layers.RMSNormalization:
    """`x / sqrt(mean(x^2) + epsilon) * scale`: Zhang and Sennrich, arXiv 1910.07467."""
    return keras.layers.RMSNormalization(epsilon=epsilon, **kwargs)


def _batch(
    momentum: float = 0.9, epsilon: float = 1e-5, **kwargs: Any
) -> keras.layers.BatchNormalization:
    """The mean and variance of the rows of a batch, of all in scoring: arXiv 1502.03167."""
    return keras.layers.BatchNormalization(momentum=momentum, epsilon=epsilon, **kwargs)


NORMS.members.update(
    layer=_layer,
    rms=_rms,
    batch=_batch,
    conditional=ConditionalNorm,
    none=keras.layers.Identity,
)


def has_norm(norm: keras.layers.Layer) -> bool:
    """Returns whether a normalisation is another one than `"none"`."""
    return not isinstance(norm, keras.layers.Identity)


def has_batch_statistics(layer: keras.layers.Layer) -> bool:
    """Returns whether outputs of a built layer depend on the other rows of a batch in training."""
    return any(variable.name in _STATISTICS for variable in layer.non_trainable_variables)


def is_conditional(norm: keras.layers.Layer) -> bool:
    """Returns whether a normalisation needs a condition."""
    return takes(norm, "condition")


def build_norm(
    norm: keras.layers.Layer, inputs_shape: Shape, condition_shape: Shape | None
) -> None:
    """Builds a normalisation.

    Raises:
        ValueError: It needs a condition, and there is none.
    """
    if not is_conditional(norm):
        norm.build(inputs_shape)
        return
    if condition_shape is None:
        raise ValueError(
            f"{type(norm).__name__} depends on a condition: call the block with `condition` "
            "(B, C), or choose another `norm`. Received: condition=None"
        )
    norm.build(inputs_shape, condition_shape)


def normalise(
    norm: keras.layers.Layer, x: Tensor, present: Tensor | None, condition: Tensor | None
) -> Tensor:
    """Calls a normalisation, with the mask and the condition if it takes them."""
    if factors_are_constant() and type(norm) in _LINEAR:
        return _LINEAR[type(norm)](norm, x)
    arguments = {}
    for name, value in (("mask", present), ("condition", condition)):
        if value is not None and takes(norm, name):
            arguments[name] = value
    return norm(x, **arguments)


def _layer_norm(norm: Any, x: Tensor) -> Tensor:
    """Layer normalisation with a constant deviation, which is linear in x."""
    x32 = ops.cast(x, "float32")
    centred = x32 - ops.mean(x32, axis=-1, keepdims=True)
    return ops.cast(centred * _constant_scale(norm, centred) * norm.gamma + norm.beta, x.dtype)


def _rms_norm(norm: Any, x: Tensor) -> Tensor:
    """RMS normalisation with a constant mean of the squares, which is linear in x."""
    x32 = ops.cast(x, "float32")
    return ops.cast(x32 * _constant_scale(norm, x32) * norm.scale, x.dtype)


def _constant_scale(norm: Any, x: Tensor) -> Tensor:
    squares = ops.mean(ops.square(x), axis=-1, keepdims=True)
    return ops.stop_gradient(ops.rsqrt(squares + norm.epsilon))


_LINEAR = {
    keras.layers.LayerNormalization: _layer_norm,
    keras.layers.RMSNormalization: _rms_norm,
}


def reusable(registry: Registry, identifier: Any) -> Any:
    """Returns the name or the config of a part, from which each of several layers makes one.

    Raises:
        ValueError: It is unknown.
    """
    part = registry.get(identifier)
    return identifier if isinstance(identifier, str | Mapping) else nameless(serialize(part))
