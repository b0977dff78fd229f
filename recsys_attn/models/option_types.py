"""Types of the options of models in a TOML file.

Each annotation has the function that checks the option or makes the part, so that a configuration
is checked before any data is read.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

from recsys_attn.attention import positions, presets
from recsys_attn.attention.layers.head_counts import head_sizes_of, key_head_of_each
from recsys_attn.blocks import activations, norms
from recsys_attn.checks import require_sizes
from recsys_attn.interactions.field_update import FieldUpdate
from recsys_attn.models import encoder_context, encoders, placements


def require_with(owner: str, given: bool, **options: Any) -> None:
    """Raises if an option is given without its owner.

    Args:
        owner: Name of the option to which the others belong.
        given: Whether the owner is given.
        options: The others by name; None if not given.
    """
    for name, value in options.items():
        if value is not None and not given:
            raise ValueError(
                f"`{name}` has no effect without {owner}; give both or neither. "
                f"Received: {name}={value!r}"
            )


def require_network(
    model: Callable[..., Any], name: str, units: Sequence[int], **options: Any
) -> None:
    """Raises if sizes of layers are not positive, or if an option has no layer to act on.

    Args:
        model: The model's function, whose defaults are no error.
        name: Name of the argument with the sizes.
        units: Sizes of the layers.
        options: Options of the network by name, such as `dropout`.
    """
    require_sizes(name, units)
    parameters = inspect.signature(model).parameters
    for option, value in options.items():
        unchanged = value in (parameters[option].default, 0, "none")
        require_with(f"`{name}`", bool(units), **{option: None if unchanged else value})


def count(value: int) -> int:
    """Returns a positive integer; raises a ValueError for other values."""
    if value < 1:
        raise ValueError(f"expected a positive integer. Received: {value}")
    return value


def share(value: float) -> float:
    """Returns a number from 0 to 1; raises a ValueError for other values."""
    if not 0 <= value <= 1:
        raise ValueError(f"expected a number from 0 to 1. Received: {value}")
    return value


def factor(value: float) -> float:
    """Returns a number of at least 0; raises a ValueError for other values."""
    if not 0 <= value < math.inf:
        raise ValueError(f"expected a number of at least 0. Received: {value}")
    return value


def sizes(values: Sequence[int]) -> Sequence[int]:
    """Returns positive integers; raises a ValueError for other values."""
    if any(value < 1 for value in values):
        raise ValueError(f"expected a list of positive integers. Received: {list(values)}")
    return values


def names(values: Sequence[str]) -> Sequence[str]:
    """Returns different names; raises a ValueError for other values."""
    listed = isinstance(values, list | tuple) and all(isinstance(name, str) for name in values)
    if not listed or len(set(values)) < len(values):
        raise ValueError(f"expected a list of different names. Received: {values!r}")
    return values


def heads(value: int | Sequence[Any]) -> int | Sequence[Any]:
    """Returns numbers of heads; raises a ValueError for other values."""
    key_head_of_each("heads", value)
    return value


def head_size(value: int | Sequence[int]) -> int | Sequence[int]:
    """Returns sizes of a head; raises a ValueError for other values."""
    head_sizes_of("head size", value)
    return value


Count: TypeAlias = Annotated[int, count]
Share: TypeAlias = Annotated[float, share]
Factor: TypeAlias = Annotated[float, factor]
Sizes: TypeAlias = Annotated[Sequence[int], sizes]
Names: TypeAlias = Annotated[Sequence[str], names]
Heads: TypeAlias = Annotated[int | Sequence[int], heads]
HeadSize: TypeAlias = Annotated[int | Sequence[int], head_size]
Activation: TypeAlias = Annotated[str, activations.serialize]
Norm: TypeAlias = Annotated[str | dict[str, Any], norms.NORMS.get]
Mechanism: TypeAlias = Annotated[str | dict[str, Any], presets.get]
Update: TypeAlias = Annotated[dict[str, Any], FieldUpdate.of]
Encoder: TypeAlias = Annotated[str | dict[str, Any], encoders.get]
EncoderContext: TypeAlias = Annotated[dict[str, Any], encoder_context.EncoderContext.of]
EncoderPositions: TypeAlias = Annotated[str | dict[str, Any], positions.get]
Gates: TypeAlias = Annotated[str | dict[str, Any], placements.check_gates]
Penalties: TypeAlias = Annotated[dict[str, Any], placements.check_disagreement]
