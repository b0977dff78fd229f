"""Checks the columns of a file against the definitions of its aggregates."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pipelines.common.arrow_kinds import is_number
from pipelines.common.errors import PipelineError
from pipelines.common.times import check_time_type, ticks_per_second
from pipelines.ingest.aggregates.options import AggregateOptions
from pipelines.ingest.checks import LABEL_ADVICE
from pipelines.storage.columns import require_column


def check_aggregates(schema: pa.Schema, aggregates: Sequence[AggregateOptions], where: str) -> None:
    """Raises an error that names the key whose column is missing or of another type."""
    for aggregate in aggregates:
        for role, names in aggregate.roles.items():
            for name in names:
                key = f"data.aggregates {aggregate.name!r}: {role}"
                require_column(schema.names, name, key, where)
                if role == "time":
                    check_time_type(schema.field(name).type, name, key, where)
                    continue
                expected = _unlike(aggregate, role, schema.field(name).type)
                if expected is not None:
                    advice = f" {LABEL_ADVICE}" if "label" in expected else ""
                    raise PipelineError(
                        f"{where}: column {name!r} ({key}): expected {expected}, received "
                        f"{schema.field(name).type}.{advice}"
                    )
        if aggregate.name in schema.names:
            raise PipelineError(
                f"{where}: the aggregate {aggregate.name!r} would replace a column of that name; "
                "give data.aggregates another `name`."
            )
        _check_durations(aggregate, schema.field(aggregate.time).type, where)


def _unlike(aggregate: AggregateOptions, role: str, kind: pa.DataType) -> str | None:
    """The type that a column must have, in words, if it has another."""
    if role == "where" or (role == "of" and aggregate.kind == "rate"):
        return None if is_number(kind) else "a label of 0, 1 or null"
    if role == "of" and aggregate.kind != "distinct":
        return None if is_number(kind) else "a number"
    return "one value per row" if pa.types.is_nested(kind) else None


def _check_durations(aggregate: AggregateOptions, kind: pa.DataType, where: str) -> None:
    holds_numbers = ticks_per_second(kind) is None
    advice = "a number in its unit, such as 604_800" if holds_numbers else "a text such as '7d'"
    for key in ("window", "delay"):
        given = getattr(aggregate, key)
        if given is not None and isinstance(given, str) == holds_numbers:
            raise PipelineError(
                f"{where}: data.aggregates {aggregate.name!r}: {key}: the column "
                f"{aggregate.time!r} holds {kind}, so give {advice}. Received: {given!r}."
            )
