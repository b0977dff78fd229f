"""Type aliases for tensors, shapes and configs."""

from __future__ import annotations

from typing import Any, TypeAlias

Tensor: TypeAlias = Any  # a tensor of the active backend, or a symbolic one
Shape: TypeAlias = tuple[int | None, ...]
Config: TypeAlias = dict[str, Any]
