"""Checks the columns of a source against the experiment, before any work on its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest.aggregates.checks import check_aggregates
from pipelines.ingest.checks import is_number
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.histories import check_history_columns
from pipelines.ingest.source import Source
from pipelines.storage.columns import describe_type, require_column
from recsys_attn.schema import Schema

# Their columns may hold anything, those of segments lists too; others of `evaluation`, numbers.
GROUP, SEGMENTS = "evaluation.group", "evaluation.segments"
_LISTS = ("list", "large_list", "fixed_size_list")


def check_columns(
    source: Source, options: DataOptions, schema: Schema | None, named: Mapping[str, str]
) -> None:
    """Checks names, and types where a key needs one, on the source's first rows.

    Args:
        source: The source before columns are made.
        options: The `[data]` table.
        schema: The features and tasks, if there are any.
        named: By key of the experiment, the columns of its other tables.

    Raises:
        PipelineError: A key names a column that is missing or of the wrong type.
    """
    found = _first_rows(source)
    if found is None:
        return
    first, where = found
    check_aggregates(first, options.aggregates, where)
    check_history_columns(first, options.histories, where)
    if options.request is not None:
        require_column(first.names, options.request, "data.request", where)
    known = [*first.names, *options.made]
    for key, name in [*_columns(options, schema), *named.items()]:
        require_column(known, name, key, where)
    lists = {history.name for history in options.histories}
    for key, name in named.items():
        kind = first.field(name).type if name in first.names else None
        check_nesting(key, name, "list" if name in lists else str(kind), where)
        if not key.startswith((GROUP, SEGMENTS)) and kind is not None and not is_number(kind):
            raise PipelineError(
                f"{where}: column {name!r} ({key}): expected numbers, received {kind}."
            )


def check_made(made: Sequence[str], schema: Schema, names: Collection[str], where: str) -> None:
    """Checks that rows to score have the features that ingest makes of a log.

    Args:
        made: Columns that ingest makes.
        schema: The features of the model.
        names: Columns of the rows.
        where: The file or the folder.

    Raises:
        PipelineError: One is missing.
    """
    used = {feature.name for feature in schema.features}
    missing = [name for name in made if name in used and name not in names]
    if missing:
        raise PipelineError(
            f"{where}: the columns {missing} are missing, which `ingest` makes of earlier rows "
            "(`data.histories`, `data.aggregates`). Add the new rows to the log, run `recsys-attn "
            "ingest` with another --run-dir and a split whose test rows they are, and score its "
            "`data/test`."
        )


def check_nesting(key: str, name: str, kind: str, where: str) -> None:
    """Checks that a column that `evaluation` names has one value per row; for segments, or a list.

    Args:
        key: The key that names the column.
        name: The column.
        kind: Its Arrow type, as text.
        where: The file or the folder.

    Raises:
        PipelineError: It has not.
    """
    outer, for_segments = kind.partition("<")[0], key.startswith(SEGMENTS)
    if outer in ("struct", "map") or (outer in _LISTS and not for_segments):
        held = "lists" if outer in _LISTS else "tables"
        raise PipelineError(
            f"{where}: column {name!r} ({key}) holds {held}; expected one value per row"
            f"{' or a list of them' if for_segments else ''}."
        )


def _first_rows(source: Source) -> tuple[pa.Schema, str] | None:
    """The columns of the first file that has rows, and its name."""
    for files in source.parts.values():
        for file in files:
            table = next((table for table in file.read(None) if table.num_rows), None)
            if table is not None:
                return table.schema, file.where
    return None


def _columns(options: DataOptions, schema: Schema | None) -> list[tuple[str, str]]:
    """The columns that the data, the features and the tasks name, with the key or the role."""
    named = [("data.split.column", options.split.column)]
    for feature in schema.features if schema else ():
        named.append((f"feature, {describe_type(feature)}", feature.name))
    for task in schema.tasks if schema else ():
        named.append(("label, 0 or 1 or null", task.label_column))
        named.append(("mask, 0 or 1 or bool", task.mask))
    return [(key, name) for key, name in named if name is not None]
