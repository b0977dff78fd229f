"""How a layer calls whichever mechanism it was given."""

from __future__ import annotations

import inspect
from typing import Any

import keras

from recsys_attn.attention.masks.checks import mask_of
from recsys_attn.tensors import Shape, Tensor


def attend(
    mechanism: keras.layers.Layer, query: Tensor, key: Tensor, value: Tensor, **given: Any
) -> tuple[Tensor, Tensor | None]:
    """Output and weights of a mechanism, called with those masks, biases and positions not None.

    A mechanism takes only what it can honour; for the rest there is a sentence that says so.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    known = inspect.signature(mechanism.call).parameters
    for name in wanted:
        if name not in known:
            raise TypeError(
                f"{type(mechanism).__name__} cannot honour `{name}`, since it does not look at "
                "every pair of a query and a key. Leave it out, or use the mechanism Dense"
            )
    return mechanism(query, key, value, **wanted)


def build_mechanism(mechanism: keras.layers.Layer, *shapes: Shape) -> None:
    """Builds a mechanism, which may be shared and built already."""
    if not mechanism.built:
        mechanism.build(*shapes)


def crossing(mechanism: keras.layers.Layer) -> keras.layers.Layer:
    """The mechanism, or its form for queries that come from elsewhere than the keys."""
    return mechanism.crossing() if hasattr(mechanism, "crossing") else mechanism


def returns_weights(mechanism: keras.layers.Layer) -> bool:
    """Whether the mechanism makes one weight for each pair of a query and a key."""
    return getattr(mechanism, "returns_weights", False)


def uses(mechanism: keras.layers.Layer, side: str) -> bool:
    """Whether a mechanism looks at what `"query"` or `"key"` holds; not all scores do."""
    return getattr(mechanism, f"uses_{side}", True)


def shares_query_and_key(mechanism: keras.layers.Layer) -> bool:
    """Whether the keys are to be made with the projection of the queries."""
    return getattr(mechanism, "shares_query_and_key", False)


def require_weights(mechanism: keras.layers.Layer, purpose: str) -> None:
    """Raises where weights are wanted of a mechanism that makes none."""
    if not returns_weights(mechanism):
        raise ValueError(
            f"{purpose} needs the weight of each pair, and {type(mechanism).__name__} makes none. "
            "Use the mechanism Dense"
        )


def joint_mask(key_mask: Tensor | None, value_mask: Tensor | None) -> Tensor | None:
    """The mask of the keys: where both they and their values are present.

    Raises:
        TypeError: One of two masks is neither boolean nor integer.
        ValueError: One of two masks is not (B, S), or they do not fit together.
    """
    if key_mask is None or value_mask is None:
        return value_mask if key_mask is None else key_mask
    key_mask = mask_of("key_mask", key_mask, "BS")
    value_mask = mask_of("value_mask", value_mask, "BS")
    for sizes in zip(key_mask.shape, value_mask.shape, strict=True):
        if len(set(sizes) - {None, 1}) > 1:
            raise ValueError(
                "`key_mask` and `value_mask` must have the same shape (B, S), one entry for each "
                f"key and its value. Received: key_mask.shape={tuple(key_mask.shape)}, "
                f"value_mask.shape={tuple(value_mask.shape)}"
            )
    return keras.ops.logical_and(key_mask, value_mask)
