"""Types of the options of models, each with the function that checks them or makes the part.

`MODELS.register` applies them to the arguments of a model, and a TOML file is checked by them
before any data is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Annotated, Any, TypeAlias

from recsys_attn.attention import positions, presets
from recsys_attn.attention.layers.head_counts import head_sizes_of, key_head_of_each
from recsys_attn.blocks import activations, norms
from recsys_attn.interactions.field_update import FieldUpdate
from recsys_attn.models import encoders, placements


def count(value: int) -> None:
    """Raises unless it is a positive integer."""
    if not _is_number(value, Integral) or value < 1:
        raise ValueError(f"expected a positive integer. Received: {value!r}")


def share(value: float) -> None:
    """Raises unless it is a number from 0 to 1."""
    if not _is_number(value, Real) or not 0 <= value <= 1:
        raise ValueError(f"expected a number from 0 to 1. Received: {value!r}")


def factor(value: float) -> None:
    """Raises unless it is a number of at least 0."""
    if not _is_number(value, Real) or not 0 <= value < math.inf:
        raise ValueError(f"expected a number of at least 0. Received: {value!r}")


def sizes(values: Sequence[int]) -> None:
    """Raises unless it is a list of positive integers, perhaps empty."""
    if not _is_list(values) or not all(_is_number(v, Integral) and v >= 1 for v in values):
        raise ValueError(f"expected a list of positive integers. Received: {values!r}")


def layers(values: Sequence[int]) -> None:
    """Raises unless it is a list of positive integers, at least one."""
    sizes(values)
    if not values:
        raise ValueError(f"expected at least one layer. Received: {values!r}")


def names(values: Sequence[str]) -> None:
    """Raises unless it is a list of different names, perhaps empty."""
    named = _is_list(values) and all(isinstance(name, str) for name in values)
    if not named or len(set(values)) < len(values):
        raise ValueError(f"expected a list of different names. Received: {values!r}")


def heads(value: int | Sequence[Any]) -> None:
    """Raises unless it is a number of heads, or a pair for grouped queries."""
    key_head_of_each("num_heads", value)


def head_size(value: int | Sequence[int]) -> None:
    """Raises unless it is the size of a head, or a pair for values of another size."""
    head_sizes_of("head_dim", value)


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_list(values: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


Count: TypeAlias = Annotated[int, count]
Share: TypeAlias = Annotated[float, share]
Factor: TypeAlias = Annotated[float, factor]
Sizes: TypeAlias = Annotated[Sequence[int], sizes]
Layers: TypeAlias = Annotated[Sequence[int], layers]
Names: TypeAlias = Annotated[Sequence[str], names]
Heads: TypeAlias = Annotated[int | Sequence[int], heads]
HeadSize: TypeAlias = Annotated[int | Sequence[int], head_size]
Activation: TypeAlias = Annotated[str, activations.serialize]
Norm: TypeAlias = Annotated[str | dict[str, Any], norms.NORMS.get]
Mechanism: TypeAlias = Annotated[str | dict[str, Any], presets.get]
Update: TypeAlias = Annotated[dict[str, Any], FieldUpdate.of]
Encoder: TypeAlias = Annotated[str | dict[str, Any], encoders.get]
EncoderPositions: TypeAlias = Annotated[str | dict[str, Any], positions.get]
Gates: TypeAlias = Annotated[str | dict[str, Any], placements.check_gates]
Penalties: TypeAlias = Annotated[dict[str, Any], placements.check_disagreement]
