"""A user's parts in an experiment file: their modules, names and options."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.common.errors import PipelineError
from pipelines.common.function_options import options_of
from pipelines.common.own_parts import OwnParts
from pipelines.common.toml_table import TomlTable
from pipelines.experiment.file import validated
from pipelines.features.transforms import TRANSFORMS
from pipelines.ingest.source import SOURCES
from pipelines.metrics import METRICS
from recsys_attn.id_transforms import BUILT_IN, OwnTransform
from serving.state.errors import did_you_mean


def import_parts(values: dict[str, Any], path: Path) -> None:
    """Imports the modules of `imports`, and sets `imports_from`."""
    names, parent = values.get("imports"), values.get("imports_from")
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names) and names):
        return  # a value of another type is refused later
    if parent is None or isinstance(parent, str):
        folder = Path.cwd() if path.is_dir() else path.resolve().parent
        values["imports_from"] = str(folder / (parent or ""))
        OwnParts(tuple(names), values["imports_from"]).load()


def check_own_options(values: dict[str, Any], where: str) -> None:
    """Checks the options of a user's source, transforms and metrics as those of built-in ones."""
    for key, kind, options in (*_source(values), *_transforms(values), *_metrics(values, where)):
        validated(kind, options, where, within=f"{key}.", values=values)


def _source(values: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The key of the source's options, their class and their values."""
    data = _table(values.get("data"))
    source = SOURCES.get(str(data.get("source")))
    if source is not None and source.func is not None:
        kind = options_of(source.func, TomlTable)
        yield "data.options", kind, data.get("options", {})


def _transforms(values: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for index, feature in enumerate(_list(values.get("features"))):
        transform = _table(_table(feature).get("transform"))
        name = str(transform.get("name"))
        if transform.get("kind") != OwnTransform.kind or name not in TRANSFORMS:
            continue
        if not dataclasses.is_dataclass(TRANSFORMS[name]):
            raise PipelineError(f"The transform {name!r} must be a dataclass of its options.")
        yield f"features[{index}].transform", TRANSFORMS[name], transform.get("options", {})


def _metrics(values: dict[str, Any], where: str) -> Iterator[tuple[str, Any, Any]]:
    for index, entry in enumerate(_list(_table(values.get("evaluation")).get("metrics"))):
        key, table = f"evaluation.metrics[{index}]", _table(entry) or {"name": entry}
        name = str(table.get("name"))
        metric = METRICS.get(name)
        if metric is None or metric.where:
            further = [name for name, metric in METRICS.items() if not metric.where]
            known = ", ".join(map(repr, further)) or "none"
            received = table.get("name")
            raise PipelineError(
                f"{where}: `{key}`: expected the name of a metric that a module of `imports` "
                f"registers. Registered: {known}. Received: {received!r}."
                f"{did_you_mean(name, further)}"
            )
        kind = options_of(metric.computed_by, TomlTable, {"requests"})
        yield key, kind, {option: table[option] for option in table if option != "name"}


def _table(value: Any) -> dict[str, Any]:
    """A table; nothing for a value of another type, which is refused later."""
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def own_transform(transform: dict[str, Any]) -> dict[str, Any] | None:
    """A transform whose kind is a registered name, as an `OwnTransform`."""
    kind = transform.get("kind")
    if kind not in TRANSFORMS or kind in BUILT_IN:
        return None
    options = {key: value for key, value in transform.items() if key != "kind"}
    return {"kind": OwnTransform.kind, "name": kind, "options": options}
