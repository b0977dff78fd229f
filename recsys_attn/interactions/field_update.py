"""The step of an interacting layer from the heads of a field to its new vector."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from recsys_attn.blocks.norms import ROW_NORMS
from recsys_attn.checks import unknown_name

_NAMES = {
    "residual": ("projected", "identity", "none"),
    "norm": ROW_NORMS,
    "relu": ("sum", "projections", "none"),
}


@dataclasses.dataclass(frozen=True)
class FieldUpdate:
    """The residual, the normalisation and the ReLU of an interacting layer.

    `new_m = relu(norm(heads_m + W_Res e_m))`

    AutoInt's paper is the default. Others that have published results:

    - its authors' code: `relu="projections"`, `norm="layer"`, with scaled scores;
    - BARS (FuxiCTR): `residual="identity"`, in AutoInt+ also `norm="layer"`;
    - DESTINE in BARS: `relu="none"`.

    Args:
        residual: `"projected"`: `W_Res e_m`, in every layer; `"identity"`: `e_m` itself, and
            `W_Res e_m` only where a layer changes the width; `"none"`.
        norm: Normalisation of the sum: `"layer"`, `"rms"` or `"none"`. Worth it with several
            layers.
        relu: `"sum"`: of the normalised sum. `"projections"`: of queries, keys, values and the
            residual, `relu(W e + b)`; the sum then has nothing below zero, and the norm is the last
            step. `"none"`: `W e + b` everywhere.

    Raises:
        ValueError: A name is unknown.

    Example:

    >>> from recsys_attn.interactions import FieldUpdate
    >>> FieldUpdate.of({"residual": "identity"})
    FieldUpdate(residual='identity', norm='none', relu='sum')
    """

    residual: str = "projected"
    norm: str = "none"
    relu: str = "sum"

    def __post_init__(self) -> None:
        for name, names in _NAMES.items():
            value = getattr(self, name)
            if value not in names:
                raise ValueError(f"`update.{name}` must be a name. {unknown_name(value, names)}")

    @classmethod
    def of(cls, update: Any) -> FieldUpdate:
        """Returns the update for a table with some of the keys; the default for None."""
        if isinstance(update, cls):
            return update
        if update is not None and not isinstance(update, Mapping):
            raise ValueError(
                f"`update` must be a table with keys of {sorted(_NAMES)}, such as "
                f'{{ norm = "layer" }}. Received: update={update!r}'
            )
        for key in update or ():
            if key not in _NAMES:
                raise ValueError(f"`update` has no key {key!r}. {unknown_name(key, _NAMES)}")
        return cls(**(update or {}))

    @property
    def use_bias(self) -> bool:
        """Whether projections have biases."""
        return self.relu != "sum"

    def projects(self, width: int, units: int) -> bool:
        """Returns whether fields of a width have a projection W_Res to a number of units."""
        return self.residual == "projected" or (self.residual == "identity" and width != units)
