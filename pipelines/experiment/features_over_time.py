"""The features that `data.features_over_time` declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.common.errors import PipelineError
from pipelines.experiment.made_columns import column_of

_LONG_TAILED = ("count", "sum", "since_last", "distinct")


def features_over_time(data: Any, features: Sequence[Any]) -> list[dict[str, Any]]:
    """The entries of `[[features]]` for the columns that `ingest` makes and no entry names.

    Args:
        data: The table `data` of the file, with one entry for each column.
        features: The entries of the file.

    Returns:
        Entries in the order of the columns; none without `features_over_time`.

    Raises:
        PipelineError: The values of a history are no feature, so that their type is not known.
    """
    if not isinstance(data, dict) or data.get("features_over_time") is not True:
        return []
    tables = [feature for feature in features if isinstance(feature, dict)]
    names = [feature.get("name") for feature in tables]
    users = data.get("users")
    context = [feature for feature in tables if feature.get("side") == "context"]
    of_context: list[Any] = [column_of(feature) for feature in context]
    of_context += [users.get("key")] if isinstance(users, dict) else []
    categorical = [feature for feature in tables if feature.get("kind") == "categorical"]
    ids = {column_of(feature): feature.get("name") for feature in reversed(categorical)}
    return [
        *(_number(entry, of_context) for entry in _entries(data, "aggregates", names)),
        *(
            _sequence(entry, ids)
            for entry in _entries(data, "histories", names)
            if isinstance(entry.get("of"), str)  # else its own error
        ),
    ]


def _entries(data: Mapping[str, Any], table: str, names: Sequence[Any]) -> list[dict[str, Any]]:
    listed = data.get(table)
    entries = [e for e in (listed if isinstance(listed, list) else []) if isinstance(e, dict)]
    return [e for e in entries if isinstance(e.get("name"), str) and e["name"] not in names]


def _number(entry: Mapping[str, Any], of_context: Sequence[Any]) -> dict[str, Any]:
    """The feature of an aggregate: of the context if its whole key is."""
    by = entry.get("by")
    is_of_context = all(name in of_context for name in (by if isinstance(by, list) else [by]))
    feature = {
        "kind": "numeric",
        "name": entry["name"],
        "side": "context" if is_of_context else "candidate",
    }
    if entry.get("kind") in _LONG_TAILED:
        feature["transform"] = ["log1p", "standardise"]
    return feature


def _sequence(entry: Mapping[str, Any], ids: Mapping[str, Any]) -> dict[str, Any]:
    """The feature of a history, with the table of the feature whose values it lists."""
    if entry["of"] not in ids:
        raise PipelineError(
            f"`data.features_over_time`: the history {entry['name']!r} lists {entry['of']!r}, "
            'which is no feature of kind = "categorical", so its type is not known. Add an entry '
            f"to `features` for {entry['of']!r} or for {entry['name']!r}."
        )
    return {"kind": "sequence", "name": entry["name"], "shares": ids[entry["of"]]}
