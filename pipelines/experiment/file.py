"""Reads the file of an experiment, and which kind of model it is of."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.common.artifacts import EXPERIMENT, read_json
from pipelines.common.errors import PipelineError


def is_of_sequences(values: Mapping[str, Any]) -> bool:
    """Whether the values of a file are of a sequence model: it has `objectives`, or events.

    Events are the source `"events"`, or the column `user`, which no data of a ranking model have.
    """
    data = values.get("data")
    if "objectives" in values or not isinstance(data, dict):
        return "objectives" in values
    return data.get("source") == "events" or ("user" in data and "features" not in values)


def read_values(path: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    """Reads the values of a TOML file or a run folder, with others by dotted key in their place."""
    values = _read_kept(path) if path.is_dir() else _read_toml(path)
    for key, value in overrides.items():
        _set(values, key, value)
    return values


def _read_kept(folder: Path) -> dict[str, Any]:
    if not (folder / EXPERIMENT).is_file():
        raise PipelineError(
            f"The folder {folder} holds no experiment: expected an experiment's TOML file, or a "
            f"run folder with {EXPERIMENT}, which its first step writes."
        )
    return read_json(folder / EXPERIMENT, "Give the experiment's TOML file and --run-dir.")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"The experiment file {path} does not exist.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"The experiment file {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{path} is not valid TOML: {error}.") from None


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted key; `imports+` adds to a list."""
    *tables, last = key.removesuffix("+").split(".")
    for depth, table in enumerate(tables, 1):
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            name = ".".join(tables[:depth])
            raise PipelineError(
                f"--set {key}: `{name}` is {'a list' if isinstance(values, list) else 'a value'} "
                "in the experiment file; expected a table, such as `training`."
            )
    if key.endswith("+"):
        value = list(dict.fromkeys([*values.get(last, []), value]))
    values[last] = value
