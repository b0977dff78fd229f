"""Names of a package that are imported at their first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str], others: list[str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package.

    Args:
        package: The name of the package.
        modules: The module of each name, from the package on; that of a module is empty.
        others: Names that the package has already.

    Example:

    >>> from recsys_attn.lazy import lazy_names
    >>> get, names = lazy_names("json", {"JSONDecoder": "decoder", "decoder": ""}, ["loads"])
    >>> get("JSONDecoder").__name__, names()
    ('JSONDecoder', ['JSONDecoder', 'decoder', 'loads'])
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name]:
            return getattr(import_module(f"{package}.{modules[name]}"), name)
        return import_module(f"{package}.{name}")

    def names() -> list[str]:
        return sorted([*modules, *(others or [])])

    return get, names
