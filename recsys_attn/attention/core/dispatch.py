"""How a layer calls whichever mechanism it was given."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core import mask_checks
from recsys_attn.attention.core.head_layout import require_a_value_a_key
from recsys_attn.serialization import takes
from recsys_attn.tensors import Shape, Tensor

_GIVEN = (
    "query_mask",
    "key_mask",
    "attention_mask",
    "attention_bias",
    "query_positions",
    "key_positions",
)


def attend(
    mechanism: keras.layers.Layer, query: Tensor, key: Tensor, value: Tensor, **given: Any
) -> tuple[Tensor, Tensor | None]:
    """Output and weights of a mechanism, called with those masks, biases and positions not None.

    The layer that a user calls has checked them by `require_fit`, so that an error names it.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    return mechanism(query, key, value, **wanted)


def require_fit(mechanism: keras.layers.Layer, shapes: Sequence[Shape], **given: Any) -> None:
    """Raises unless a mechanism takes all that is given, and all shapes fit, as far as is known.

    A mechanism takes only what it can honour. Called for symbols too, which reach no mechanism
    before a model runs.

    Args:
        mechanism: What is called.
        shapes: Of query, key and value, each with its heads.
        given: Masks, a bias and positions; None for what is not given.
    """
    query_shape, key_shape, value_shape = shapes
    require_taken(mechanism, *(name for name, value in given.items() if value is not None))
    require_a_value_a_key(key_shape, value_shape)
    mask_checks.require_fit(query_shape, key_shape, **given)


def checked_shapes(
    layer: Any, num_heads: int, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Shape], bool]:
    """What a symbolic call of a layer around a mechanism tells, once it has been checked.

    Returns:
        Shapes of query, key and value with an axis for the heads, and whether weights are wanted.
    """
    bound = inspect.signature(layer.call).bind(*args, **kwargs).arguments
    told: dict[str, Any] = {**bound, **kwargs}  # a subclass may hand some on by `**kwargs`
    return_weights = told.get("return_weights", False)
    if return_weights:
        require_weights(layer.mechanism, "`return_weights`")
    query = told["query"]
    value = query if told.get("value") is None else told["value"]
    key = value if told.get("key") is None else told["key"]
    shapes = [(*x.shape[:2], num_heads, x.shape[-1]) for x in (query, key, value)]
    joint_mask(shapes[0], shapes[1], None, told.get("value_mask"))
    require_fit(layer.mechanism, shapes, **{name: told.get(name) for name in _GIVEN})
    return shapes, return_weights


def require_taken(mechanism: keras.layers.Layer, *names: str) -> None:
    """Raises unless a mechanism can honour what is given by these names."""
    for name in names:
        if not takes(mechanism, name):
            raise TypeError(
                f"{type(mechanism).__name__} cannot honour `{name}`, since it does not look at "
                "every pair of a query and a key. Leave it out, or use the mechanism Dense"
            )


def crossing(mechanism: keras.layers.Layer) -> keras.layers.Layer:
    """The mechanism, or its form for queries that come from elsewhere than the keys.

    Raises:
        ValueError: It is for a sequence that attends to itself: it is causal by the order of its
            queries, or takes positions from it.
    """
    name = type(mechanism).__name__
    if getattr(mechanism, "causal", False):
        raise ValueError(
            f"With causal=True {name} is for a sequence that attends to itself: here queries come "
            "from elsewhere (candidates, tasks, learned queries) and stand after all keys. Leave "
            "`causal` False. Received: causal=True"
        )
    if getattr(mechanism, "positional", False) and not takes(mechanism, "query_positions"):
        raise ValueError(
            f"{name} cannot place queries that come from elsewhere (candidates, tasks, learned "
            "queries) for a score that looks at positions. Use a score without positions, or the "
            f"mechanism Dense. Received: score={type(mechanism.score).__name__}"
        )
    return mechanism.crossing() if hasattr(mechanism, "crossing") else mechanism


def require_own_sequence(mechanism: keras.layers.Layer, query: Any, *others: Any) -> None:
    """Raises where a mechanism that routes a sequence to itself gets keys from elsewhere.

    Called with what the user gave: Keras may have made two tensors of one.
    """
    if hasattr(mechanism, "crossing") and any(x is not None and x is not query for x in others):
        raise ValueError(
            f"{type(mechanism).__name__} attends a sequence to itself, so `query`, `value` and "
            "`key` must be one tensor. For queries from elsewhere use the mechanism Retrieved, "
            "with the same router"
        )


def is_causal(mechanism: Any) -> bool:
    """Whether no query of a mechanism attends a key after it."""
    pattern = getattr(mechanism, "pattern", None)
    return getattr(mechanism, "causal", False) or (pattern is not None and pattern.is_causal)


def returns_weights(layer: keras.layers.Layer) -> bool:
    """Whether a mechanism, or a layer around one, makes a weight for each query and key."""
    return getattr(layer, "returns_weights", False)


def uses(mechanism: keras.layers.Layer, side: str) -> bool:
    """Whether a mechanism looks at what `"query"` or `"key"` holds; not all scores do."""
    return getattr(mechanism, f"uses_{side}", True)


def require_apart(mechanism: keras.layers.Layer, queries: int, keys: int | None, name: str) -> None:
    """Raises where a mechanism gives all of several learned queries the same result.

    Args:
        mechanism: What attends.
        queries: Number of learned queries.
        keys: Number of keys, where it is known.
        name: The argument that says how many queries there are, for the error.
    """
    if queries == 1:
        return
    if not uses(mechanism, "query"):
        part = getattr(mechanism, "score", mechanism)
        raise ValueError(
            f"{type(part).__name__} does not look at the query, so all of several learned queries "
            "would get the same result. Use a mechanism that does, such as 'han' or 'transformer'. "
            f"Received: {name}={queries}"
        )
    compressor = getattr(mechanism, "compressor", None)
    if compressor is not None and keys not in (None, 1) and compressor.count(keys) == 1:
        raise ValueError(
            f"{type(compressor).__name__} makes one summary of {keys} keys, so all of several "
            "learned queries would get the same result. Use a smaller stride, or a mechanism "
            f"without summaries. Received: {name}={queries}"
        )


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


def joint_mask(
    query_shape: Shape, key_shape: Shape, key_mask: Tensor | None, value_mask: Tensor | None
) -> Tensor | None:
    """The mask of the keys: where both they and their values are present.

    Raises:
        TypeError: A mask is neither boolean nor integer.
        ValueError: A mask is not (B, S).
    """
    if value_mask is None:
        return key_mask
    mask_checks.require_fit(query_shape, key_shape, key_mask=key_mask, value_mask=value_mask)
    if key_mask is None:
        return value_mask
    return ops.logical_and(ops.cast(key_mask, "bool"), ops.cast(value_mask, "bool"))
