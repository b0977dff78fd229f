"""One place that turns `"dice"`, `"relu"` and all other activations into layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from recsys_attn.blocks.dice import Dice
from recsys_attn.checks import unknown_name
from recsys_attn.tensors import Config, Tensor


def serialize(activation: Any) -> str | Config:
    """What a config says of an activation: `"dice"`, a name of Keras, or a registered function.

    Args:
        activation: `"dice"`, or whatever `keras.activations.get` takes.

    Raises:
        ValueError: No activation has this name.
    """
    if activation == "dice":
        return "dice"
    try:
        return keras.activations.serialize(keras.activations.get(activation))
    except ValueError:
        raise ValueError(
            "Expected `activation` to be 'dice' or an activation of Keras. "
            + unknown_name(activation, ["dice", *_KERAS])
        ) from None


def function(name: str, activation: Any, *others: str) -> Callable[[Tensor], Tensor]:
    """An activation of Keras, for an argument of this name that may say `others` too.

    Raises:
        ValueError: No activation of Keras has this name; `"dice"` is one with weights.
    """
    try:
        return keras.activations.get(activation)
    except ValueError:
        expected = " or ".join([*map(repr, others), "an activation of Keras"])
        raise ValueError(
            f"`{name}` must be {expected}. {unknown_name(activation, [*others, *_KERAS])}"
        ) from None


def get(activation: Any, dtype: Any = None) -> keras.layers.Layer:
    """A new layer for an activation, with weights of its own where it has any."""
    if activation == "dice":
        return Dice(dtype=dtype)
    return keras.layers.Activation(activation, dtype=dtype)


def apply(layer: keras.layers.Layer, inputs: Tensor, where: Tensor | None) -> Tensor:
    """Calls a layer that `get` made; `where` tells Dice which rows are real."""
    return layer(inputs, where=where) if isinstance(layer, Dice) else layer(inputs)


_KERAS = sorted(
    name
    for name in dir(keras.activations)
    if not name.startswith("_") and name not in ("deserialize", "get", "serialize")
)
