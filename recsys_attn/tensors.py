"""Names for what Keras leaves untyped."""

from __future__ import annotations

from typing import Any, TypeAlias

Tensor: TypeAlias = Any  # the tensor of whichever backend runs, or a symbolic one
Shape: TypeAlias = tuple[int | None, ...]
Config: TypeAlias = dict[str, Any]
