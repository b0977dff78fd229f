"""Activations by name, including `"dice"`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from recsys_attn.blocks.dice import Dice
from recsys_attn.checks import unknown_name
from recsys_attn.constant_factors import factors_are_constant, times_constant
from recsys_attn.tensors import Config, Tensor


def serialize(activation: Any, *others: str) -> str | Config:
    """Returns the config of an activation: `"dice"`, a Keras name, or a registered function.

    Args:
        activation: `"dice"`, or an argument of `keras.activations.get`.
        others: More valid names.

    Raises:
        ValueError: The name is unknown.
    """
    if isinstance(activation, str) and activation in ("dice", *others):
        return activation
    try:
        return keras.activations.serialize(keras.activations.get(activation))
    except ValueError:
        expected = ", ".join(map(repr, ("dice", *others)))
        raise ValueError(
            f"Expected `activation` to be {expected} or an activation of Keras. "
            + unknown_name(activation, ["dice", *others, *_KERAS])
        ) from None


def function(name: str, activation: Any, *others: str) -> Callable[[Tensor], Tensor]:
    """Returns a Keras activation; `name` and the other valid values are for the error.

    Raises:
        ValueError: Keras has no such activation; `"dice"` has weights, so it is not valid here.
    """
    try:
        return keras.activations.get(activation)
    except ValueError:
        expected = " or ".join([*map(repr, others), "an activation of Keras"])
        raise ValueError(
            f"`{name}` must be {expected}. {unknown_name(activation, [*others, *_KERAS])}"
        ) from None


def get(activation: Any, dtype: Any = None) -> keras.layers.Layer:
    """Returns a new layer for an activation."""
    if activation == "dice":
        return Dice(dtype=dtype)
    return keras.layers.Activation(activation, dtype=dtype)


def apply(layer: keras.layers.Layer, inputs: Tensor, where: Tensor | None) -> Tensor:
    """Calls a layer of `get`; `where` is the mask of real rows, for Dice."""
    output = layer(inputs, where=where) if isinstance(layer, Dice) else layer(inputs)
    return times_constant(inputs, output) if factors_are_constant() else output


def activated(activation: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Calls an activation; inside `constant_factors` with a constant slope."""
    output = activation(inputs)
    return times_constant(inputs, output) if factors_are_constant() else output


_KERAS = sorted(
    name
    for name in dir(keras.activations)
    if not name.startswith("_") and name not in ("deserialize", "get", "serialize")
)
