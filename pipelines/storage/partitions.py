"""Columns that the folders of a file give, as Hive and Spark write them: `dt=2025-01-01/`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.storage.columns import arrow_type
from recsys_attn.schema import Feature

_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?\d{1,18}")
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")


def partition_values(relative: str) -> dict[str, str | None]:
    """The values that the folders of a file give, by column.

    Args:
        relative: The file's path below the folder of the data.
    """
    pairs = [folder.partition("=") for folder in relative.split("/")[:-1]]
    return {
        unquote(name): None if value == _NULL else unquote(value)
        for name, equals, value in pairs
        if name and equals
    }


def partition_types(
    names: Iterable[str], features: Mapping[str, Feature]
) -> dict[str, pa.DataType]:
    """The types of the columns that the folders of all files give.

    Args:
        names: The files' paths below the folder of the data.
        features: The features by column. Other columns hold integers, dates or strings, by their
            values.
    """
    values: dict[str, set[str | None]] = {}
    for name in names:
        for column, value in partition_values(name).items():
            values.setdefault(column, set()).add(value)
    return {
        name: arrow_type(features[name].dtype) if name in features else _type_of(of_column)
        for name, of_column in values.items()
    }


def with_partitions(
    table: pa.Table, relative: str, types: Mapping[str, pa.DataType], where: str
) -> pa.Table:
    """The rows of a file with the columns that its folders give; its own columns remain.

    Args:
        table: Rows of the file.
        relative: Its path below the folder of the data.
        types: The types of those columns.
        where: Its name, for errors.
    """
    for name, value in partition_values(relative).items():
        if name in types and name not in table.column_names:
            try:
                scalar = pa.scalar(value, pa.string()).cast(types[name])
            except pa.ArrowInvalid:
                raise PipelineError(
                    f"{where}: column {name!r}: expected {types[name]}, received the folder "
                    f"{name}={value}."
                ) from None
            table = table.append_column(name, pa.repeat(scalar, table.num_rows))
    return table


def _type_of(values: Iterable[str | None]) -> pa.DataType:
    known = {value for value in values if value is not None}
    if known and all(_INTEGER.fullmatch(value) for value in known):
        return pa.int64()
    if known and all(_DATE.fullmatch(value) for value in known):
        return pa.date32()
    return pa.string()
