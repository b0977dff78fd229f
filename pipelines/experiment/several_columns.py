"""Entries of `data.aggregates` and `data.histories` whose `of` and `by` are lists.

The file has one entry where the rest of the code has one for each column that is made.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.common.errors import PipelineError

TABLES = ("aggregates", "histories")
Origins = Mapping[str, Sequence[int]]


def expand_lists(values: dict[str, Any]) -> Origins:
    """Replaces each entry of `data` with lists by one entry for each column.

    Args:
        values: The values of the file; its table `data` is replaced.

    Returns:
        By key of a list, the index in the file of each of its new entries.

    Raises:
        PipelineError: A key is written in two ways, or two columns of an entry have one name.
    """
    data = values.get("data")
    if not isinstance(data, dict):
        return {}
    expanded = dict(data)
    origins: dict[str, list[int]] = {}
    for table in TABLES:
        entries = data.get(table)
        if isinstance(entries, list):
            key = f"data.{table}"
            several = [list(_columns(e, f"{key}[{i}]", table)) for i, e in enumerate(entries)]
            expanded[table] = list(itertools.chain(*several))
            origins[key] = [index for index, columns in enumerate(several) for _ in columns]
    values["data"] = expanded
    return origins


def _columns(entry: Any, key: str, table: str) -> Iterator[Any]:
    """Expands one entry; a value of another type stays as it is, for the checks."""
    if not isinstance(entry, dict):
        yield entry
        return
    of, by = entry.get("of"), entry.get("by")
    several_of = of if isinstance(of, list) and of else [of]
    several_by = _keys(by, key)
    columns = []
    for value, columns_of_key in itertools.product(several_of, several_by):
        column = {**entry, "of": value, "by": columns_of_key}
        column = {name: value for name, value in column.items() if value is not None}
        if table == "aggregates" or "name" in entry:
            column["name"] = _name(entry, column)
        columns.append(column)
    names = [column.get("name") for column in columns]
    if any(names.count(name) > 1 for name in names):
        raise PipelineError(
            f"`{key}.name`: the lists of `of` and `by` make {len(columns)} columns; expected a "
            "different name for each, with {of} and {by} in it"
            f"{', or no `name`' if table == 'aggregates' else ''}. Received: {names}."
        )
    yield from columns


def _keys(by: Any, key: str) -> list[Any]:
    """The keys that `by` names: one, or with a list of lists several."""
    if not isinstance(by, list) or not any(isinstance(part, list) for part in by):
        return [by]
    if not all(isinstance(part, list) for part in by):
        apart = [part if isinstance(part, list) else [part] for part in by]
        raise PipelineError(
            f"`{key}.by`: expected a column, a list of columns, which are one key, or a list of "
            f"lists, which are several keys. Received: {json.dumps(by)}. Write several keys as "
            f"{json.dumps(apart)}."
        )
    return [part[0] if len(part) == 1 else part for part in by]


def _name(entry: Mapping[str, Any], column: Mapping[str, Any]) -> Any:
    """The name of the column: with the values of {of} and {by}, or made of the other keys."""
    by = column.get("by")
    key = "_".join(map(str, by)) if isinstance(by, list) else str(by)
    if "name" in entry:
        name = entry["name"]
        if not isinstance(name, str):
            return name
        return name.replace("{of}", str(column.get("of"))).replace("{by}", key)
    words = [column.get("of"), column.get("where"), column.get("kind"), "by", key]
    words += [column.get("window"), f"last_{entry['last']}" if "last" in entry else None]
    return "_".join(str(word) for word in words if word is not None)
