"""An experiment's settings and features, as a report shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.experiment.config import Experiment
from recsys_attn.schema import Schema

_TABLES = ("model", "training", "evaluation")


def described(experiment: Experiment, schema: Schema) -> dict[str, Any]:
    """Settings by dotted key, and the features of the model.

    Args:
        experiment: The experiment.
        schema: The fitted schema of the model, with the sizes of its tables.
    """
    values = experiment.resolved
    shown = {table: values[table] for table in _TABLES}
    shown["evaluation"].pop("gates")  # the report has a table of them
    data = values["data"]
    shown["data"] = {key: data[key] for key in ("source", "path", "request", "split", "items")}
    for made in ("histories", "aggregates"):
        shown["data"][made] = {column["name"]: column for column in data[made]}
    shown["tasks"] = {task["name"]: task for task in values["tasks"]}
    return {
        "settings": dict(_flat(shown)),
        "features": [
            {
                "name": feature.name,
                "kind": feature.kind,
                "side": feature.side,
                "transform": _transform(feature.transform),
                "table_rows": getattr(feature, "size", None),
            }
            for feature in schema.features
        ],
    }


def _flat(values: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Set values by dotted key."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _flat(value, f"{key}.{name}" if key else name)
    elif values not in (None, [], ""):
        yield key, values


def _transform(transform: Any) -> str:
    return ", ".join(transform) if isinstance(transform, tuple) else transform.kind
