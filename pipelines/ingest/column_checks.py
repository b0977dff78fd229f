"""Checks the columns of a source against the experiment, before any work on its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.histories import check_history_columns
from pipelines.ingest.source import Source
from pipelines.ingest.table_checks import check_table
from recsys_attn.schema import Schema
from serving.state.columns.arrow_kinds import is_number
from serving.state.columns.times import ticks_per_second
from serving.state.definitions.aggregate_options import check_aggregates
from serving.state.definitions.durations import check_unit
from serving.state.errors import require_column

# Their columns may hold anything, those of segments lists too; others of `evaluation`, numbers.
GROUP, SEGMENTS = "evaluation.group", "evaluation.segments"


def check_columns(
    source: Source, options: DataOptions, schema: Schema | None, named: Mapping[str, str]
) -> None:
    """Checks names and types in all files, without reading their rows where a header has them.

    Args:
        source: The source before columns are made.
        options: The `[data]` table.
        schema: The features and tasks, if there are any.
        named: By key of the experiment, the columns of its other tables.

    Raises:
        PipelineError: A key names a column that is missing or of the wrong type.
    """
    checked: list[pa.Schema] = []
    for file in (file for files in source.parts.values() for file in files):
        columns = file.schema
        if columns is not None and not any(columns.equals(other) for other in checked):
            _check_file(columns, options, schema, named, file.where)
            checked.append(columns)


def _check_file(
    columns: pa.Schema,
    options: DataOptions,
    schema: Schema | None,
    named: Mapping[str, str],
    where: str,
) -> None:
    """Checks the columns of one file."""
    check_aggregates(columns, options.aggregates, where)
    check_history_columns(columns, options.histories, where)
    _check_events(columns, options, where)
    for key, column in (
        ("data.request", options.request),
        ("data.split.column", options.split.column),
    ):
        if column is not None:
            require_column(columns.names, column, key, where)
            if key == "data.request" or options.split.by != "column":  # else its own error
                check_nesting(key, column, str(columns.field(column).type), where)
    empty = columns.empty_table()
    for name in options.made:
        empty = empty.append_column(name, pa.nulls(0))
    if schema is not None:
        check_table(empty, schema, where)
    lists = {history.name for history in options.histories}
    for key, name in named.items():
        if name not in options.made:
            require_column(columns.names, name, key, where)
        kind = columns.field(name).type if name in columns.names else None
        check_nesting(key, name, "list" if name in lists else str(kind), where)
        if not key.startswith((GROUP, SEGMENTS)) and kind is not None and not is_number(kind):
            raise PipelineError(
                f"{where}: column {name!r} ({key}): expected numbers, received {kind}."
            )


def _check_events(columns: pa.Schema, options: DataOptions, where: str) -> None:
    """Checks the id and the time unit of the events of histories and aggregates."""
    if options.event_id is not None:
        require_column(columns.names, options.event_id, "data.event_id", where)
        kind = columns.field(options.event_id).type
        check_nesting("data.event_id", options.event_id, str(kind), where)
    if options.time is None:
        return
    kind = columns.field(options.time).type
    check_unit(options.late, "data.late", options.time, kind, where)
    if options.time_unit is not None and ticks_per_second(kind) is not None:
        raise PipelineError(
            f"{where}: data.time_unit: the column {options.time!r} holds {kind}, which has a unit "
            f"of its own. Remove the key. Received: {options.time_unit!r}."
        )


def check_made(made: Sequence[str], schema: Schema, names: Collection[str], where: str) -> None:
    """Checks that rows to score have the features that ingest makes of a log.

    Args:
        made: Columns that ingest makes.
        schema: The features of the model.
        names: Columns of the rows.
        where: The file or the folder.

    Raises:
        PipelineError: A feature is missing.
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
    """Checks that a column has one value per row; one of segments may have a list.

    Args:
        key: The key that names the column.
        name: The column.
        kind: Its plain Arrow type, as text.
        where: The file or the folder.

    Raises:
        PipelineError: The column has values of another kind.
    """
    outer, for_segments = kind.partition("<")[0], key.startswith(SEGMENTS)
    if outer in ("struct", "map") or (outer == "list" and not for_segments):
        held = "lists" if outer == "list" else "tables"
        raise PipelineError(
            f"{where}: column {name!r} ({key}) holds {held}; expected one value per row"
            f"{' or a list of them' if for_segments else ''}."
        )
