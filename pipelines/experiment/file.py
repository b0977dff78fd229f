"""Reads TOML files, checks their values, and tells which kind of model an experiment is of."""

from __future__ import annotations

import json
import tomllib
import types
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from pipelines.common.artifacts import EXPERIMENT, read_json
from pipelines.common.errors import PipelineError
from pipelines.experiment.several_columns import Origins
from pipelines.experiment.validation_errors import explain
from recsys_attn.options import expanded

Table = TypeVar("Table")


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
    values = _read_saved(path) if path.is_dir() else read_toml(path, "experiment")
    for key, value in overrides.items():
        _set(values, key, value)
    return values


def _read_saved(folder: Path) -> dict[str, Any]:
    if not (folder / EXPERIMENT).is_file():
        raise PipelineError(
            f"The folder {folder} holds no experiment: expected an experiment's TOML file, or a "
            f"run folder with {EXPERIMENT}, which its first step writes."
        )
    return read_json(folder / EXPERIMENT, "Give the experiment's TOML file and --run-dir.")


def read_toml(path: Path, kind: str) -> dict[str, Any]:
    """Reads a TOML file.

    Args:
        path: The file.
        kind: The kind of file, for errors: `"experiment"`.

    Raises:
        PipelineError: It does not exist, cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"The {kind} file {path} does not exist.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"The {kind} file {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{path} is not valid TOML: {error}.") from None


def validated(
    kind: type[Table],
    table: Any,
    where: str,
    copied: Collection[str] = (),
    within: str = "",
    values: Mapping[str, Any] = types.MappingProxyType({}),
    origins: Origins = types.MappingProxyType({}),
) -> Table:
    """Makes an object of a class from a table of a TOML file.

    Pydantic's strict rules for JSON fit TOML: lists are lists, whole numbers are numbers, and
    nothing else is converted.

    Args:
        kind: The class.
        table: The table.
        where: The file, for errors.
        copied, within, values, origins: As for `explain`.

    Raises:
        PipelineError: A value is wrong; the message has a line for each.
    """
    try:
        text = json.dumps(table, default=_iso_text)
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        message = explain(error, kind, where, copied, within, values, origins)
        raise PipelineError(message) from None


def _iso_text(value: Any) -> str:
    """A date or a time of TOML as ISO text."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted key; `imports+` adds to a list."""
    *tables, last = keys = key.removesuffix("+").split(".")
    for depth, table in enumerate(tables, 1):
        inner = values.setdefault(table, {})
        if tables[0] == "model" and depth > 1 and keys[depth] not in ("class_name", "config"):
            inner = values[table] = expanded(inner, ("name",))  # of `encoder = "gru"`
        values = inner
        if not isinstance(values, dict):
            name = ".".join(tables[:depth])
            raise PipelineError(
                f"--set {key}: `{name}` is {'a list' if isinstance(values, list) else 'a value'} "
                "in the experiment file; expected a table, such as `training`."
            )
    if key.endswith("+"):
        value = list(dict.fromkeys([*values.get(last, []), value]))
    values[last] = value
