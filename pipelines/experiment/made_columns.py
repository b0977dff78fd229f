"""Defaults and checks of features whose columns ingest makes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions
from recsys_attn.schema import Feature, Schema, is_listed
from serving.state.definitions.history_options import HistoryOptions

_SAME_EVENTS = ("by", "time", "where", "max_length")  # sequences with equal ones are aligned
_MAX_LENGTH = HistoryOptions.model_fields["max_length"].default
_GROUP = "history"


def fill_histories(features: Mapping[int, dict[str, Any]], data: Any) -> list[str]:
    """Gives each sequence the `max_length` of its history, and a `history` for the same events.

    Sequences of `data.histories` that list the same events share a `history`. The first one is
    called `history`, another one like its first sequence.

    Args:
        features: Tables of the file by their index; missing keys are added.
        data: The table `data` of the file.

    Returns:
        The keys that were added.

    Raises:
        PipelineError: Ages of `data.histories` have no events.
    """
    listed = data.get("histories") if isinstance(data, dict) else None
    entries = {
        str(entry.get("name")): {"max_length": _MAX_LENGTH, **entry}
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, dict)
    }
    events = {
        index: json.dumps([entries.get(column_of(f), {}).get(key) for key in _SAME_EVENTS])
        for index, f in features.items()
        if f.get("kind") == "sequence"
    }
    _check_ages(features, events, entries)
    groups: dict[str, Any] = {}
    for index, same in events.items():
        if _GROUP in features[index]:
            groups.setdefault(same, features[index][_GROUP])
    added = []
    for index, same in events.items():
        feature = features[index]
        name, column = str(feature.get("name")), column_of(feature)
        group = groups.setdefault(same, name if _GROUP in groups.values() else _GROUP)
        defaults = {_GROUP: group}
        if column in entries:
            defaults["max_length"] = entries[column]["max_length"]
        for key in defaults.keys() - feature.keys():
            feature[key] = defaults[key]
            added.append(f"features[{index}].{key}")
    return added


def column_of(feature: Mapping[str, Any]) -> str:
    """The column that an entry of `features` reads."""
    return str(feature.get("column") or feature.get("name"))


def _check_ages(
    features: Mapping[int, dict[str, Any]], events: Mapping[int, str], entries: Mapping[str, Any]
) -> None:
    """Checks that ages that `data.histories` makes have sequences of the same events."""
    names = {index: column_of(features[index]) for index in events}
    absent = [repr(name) for name in names.values() if name not in entries]
    for index, name in names.items():
        is_alone = list(events.values()).count(events[index]) == 1
        has_group = _GROUP in features[index]
        if absent and is_alone and not has_group and entries.get(name, {}).get("ages"):
            raise PipelineError(
                f"`features[{index}]`: {name!r} has the ages of events that `data.histories` "
                f"lists, but `data.histories` has no entry for {', '.join(absent)}, so they are "
                "not one history. Add an entry with the same `by`, `time`, `where` and "
                f"`max_length`, or remove that of {name!r}."
            )


def check_made_columns(data: DataOptions, schema: Schema) -> None:
    """Checks the features that use columns of `data.histories` and `data.aggregates`.

    Raises:
        ValueError: A feature has another kind than its column, or sequences of one history list
            different events.
    """
    numbers = {aggregate.name for aggregate in data.aggregates}
    histories = {history.name: history for history in data.histories}
    for index, feature in enumerate(schema.features):
        key = f"`features[{index}].kind`: the feature is a column of"
        if feature.column_name in numbers and (is_listed(feature) or feature.dtype != "float32"):
            raise ValueError(
                f'{key} `data.aggregates`, which holds numbers: expected kind = "numeric". '
                f"Received: {feature.kind!r}"
            )
        if feature.column_name in histories and not is_listed(feature):
            raise ValueError(
                f'{key} `data.histories`, which holds lists: expected kind = "sequence". '
                f"Received: {feature.kind!r}"
            )
    for task in schema.tasks:
        if task.label_column in data.made:
            raise ValueError(
                f"`tasks`: the label {task.label_column!r} is a column of earlier events, not an "
                "outcome; expected a column of 0 and 1"
            )
    for name, sequences in schema.histories.items():
        made = [s for s in sequences if s.column_name in histories]
        _check_aligned(name, made, histories)


def _check_aligned(
    name: str, sequences: Sequence[Feature], histories: Mapping[str, HistoryOptions]
) -> None:
    for sequence in sequences[1:]:
        first, other = (histories[s.column_name] for s in (sequences[0], sequence))
        for key in _SAME_EVENTS:
            if getattr(first, key) != getattr(other, key):
                raise ValueError(
                    f"`features`: the sequences {first.name!r} and {other.name!r} have history = "
                    f"{name!r}, so that entry s of each belongs to event s, but their "
                    f"`data.histories` list different events: `{key}` is {getattr(first, key)!r} "
                    f"and {getattr(other, key)!r}. Leave `history` out, or give another name"
                )
