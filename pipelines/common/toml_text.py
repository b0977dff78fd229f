"""Values as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def toml_text(value: Any) -> str:
    """A value as it stands in a TOML file, on one line.

    Args:
        value: A text, a boolean, a number, a date, or a list or a table of them.
    """
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        pairs = (f"{_key(name)} = {toml_text(inner)}" for name, inner in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_text, value))}]"
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else json.dumps(name, ensure_ascii=False)
