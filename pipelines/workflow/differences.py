"""Differences between settings, as keys of the experiment file with both values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipelines.storage.filesystem import shown


def differences(before: Any, now: Any, key: str = "") -> list[str]:
    """One clause for each key that differs; tables in a list are matched by name."""
    if before == now:
        return []
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return [
            clause
            for name in {**now, **before}
            for clause in differences(
                before.get(name), now.get(name), f"{key}.{name}" if key else name
            )
        ]
    old, new = _by_name(before), _by_name(now)
    if old and new:
        common = {name: (old[name], new[name]) for name in old if name in new}
        return differences(list(old), list(new), key) + [
            clause
            for name, values in common.items()
            for clause in differences(*values, f"{key}.{name}")
        ]
    return [f"`{key}` was {_text(before)} and is {_text(now)} now"]


def _by_name(value: Any) -> dict[str, Any]:
    """The tables of a list such as `features`, by name; empty for any other value."""
    tables = value if isinstance(value, list) else []
    return {t["name"]: t for t in tables if isinstance(t, Mapping) and "name" in t}


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    text = json.dumps(shown(value) if isinstance(value, str) else value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
