"""The border of attention: the arguments of a layer's call, checked and made into one record."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from keras import ops

from recsys_attn.attention.core import mask_checks
from recsys_attn.attention.core.masks import MASK_ARGUMENTS, Masks
from recsys_attn.attention.mechanisms.base import Mechanism
from recsys_attn.tensors import Shape, Tensor


def masks_of_call(
    mechanism: Mechanism,
    num_heads: int,
    inputs: Sequence[Tensor],
    value_mask: Tensor | None,
    key_mask: Tensor | None,
    **arguments: Any,
) -> Masks:
    """Checks the call arguments of a layer, and returns the masks for its mechanism.

    Args:
        mechanism: The mechanism of the layer.
        num_heads: Number of heads N.
        inputs: Query (B, T, E), key (B, S, D) and value (B, S, D).
        value_mask, key_mask: (B, S); a key counts where both are True.
        arguments: The other masks, the bias and the positions by name; None for those not given.

    Raises:
        TypeError: The mechanism does not look at one that is given, or its dtype is wrong.
        ValueError: A shape does not fit.
    """
    shapes = [(*x.shape[:2], num_heads, x.shape[-1]) for x in inputs]
    if value_mask is not None:
        mask_checks.require_fit(*shapes[:2], key_mask=key_mask, value_mask=value_mask)
        value_mask = ops.cast(value_mask, "bool")
        key_mask = (
            value_mask
            if key_mask is None
            else ops.logical_and(ops.cast(key_mask, "bool"), value_mask)
        )
    return mechanism.masks_of(*shapes, key_mask=key_mask, **arguments)


def checked_shapes(
    layer: Any, num_heads: int, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Shape], bool]:
    """Checks a symbolic call of a layer around a mechanism.

    Returns:
        Shapes of query, key and value with an axis for the heads, and whether weights are wanted.
    """
    bound = inspect.signature(layer.call).bind(*args, **kwargs).arguments
    arguments: dict[str, Any] = {**bound, **kwargs}  # a subclass may pass some on by `**kwargs`
    return_weights = arguments.get("return_weights", False)
    if return_weights:
        layer.mechanism.require_weights("`return_weights`", on_request=True)
    query = arguments["query"]
    value = query if arguments.get("value") is None else arguments["value"]
    key = value if arguments.get("key") is None else arguments["key"]
    shapes = [(*x.shape[:2], num_heads, x.shape[-1]) for x in (query, key, value)]
    mask_checks.require_fit(*shapes[:2], value_mask=arguments.get("value_mask"))
    layer.mechanism.require_fit(*shapes, **{name: arguments.get(name) for name in MASK_ARGUMENTS})
    return shapes, return_weights
