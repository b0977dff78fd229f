"""Differences between settings, as keys of the experiment file, and between source files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pipelines.storage.filesystem import shown

_SHOWN = 3  # files in a message


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


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """One clause for each file whose stamp, its size and time, differs; of many the first ones."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    clauses = [f"{name} {_change(before.get(name), now.get(name))}" for name in names[:_SHOWN]]
    return clauses + [f"{len(names) - _SHOWN} more files"] * (len(names) > _SHOWN)


def _change(before: str | None, now: str | None) -> str:
    """The change of a stamp, in words."""
    if before is None or now is None:
        return "is new" if before is None else "is gone"
    if " " not in now:  # the fingerprint of another run
        return "has changed"
    (old, _), (new, written) = before.split(), now.split()
    if old != new:
        return f"had {int(old):,} bytes and has {int(new):,} now"
    at = datetime.fromtimestamp(int(written) / 1e9).isoformat(" ", "seconds")
    return f"has the same size but was written again at {at}"


def _by_name(value: Any) -> dict[str, Any]:
    """The tables of a list such as `features`, by name; empty for any other value."""
    tables = value if isinstance(value, list) else []
    return {t["name"]: t for t in tables if isinstance(t, Mapping) and "name" in t}


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    text = json.dumps(shown(value) if isinstance(value, str) else value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
