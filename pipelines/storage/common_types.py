"""The type of each column over all files: one rule, and its errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.storage.columns import accepts, arrow_type, describe_type, plain
from pipelines.storage.exact_casts import cast_exactly, check_utf8, plain_column
from recsys_attn.schema import Feature, is_listed
from serving.state.columns.arrow_kinds import is_list, of_values
from serving.state.columns.times import common_time_type


class StoredType(NamedTuple):
    """The type of a column in a file."""

    kind: pa.DataType
    where: str


@dataclass(frozen=True)
class CommonTypes:
    """The columns of some files, each with the type that all its files are read in.

    The types are Arrow's plain ones (`columns.plain`). Where files differ, a column has the
    type of its feature, else the type that holds the values of all files. A column without values
    takes the type of the other files.

    Attributes:
        schema: The columns of all files whose types fit together.
        conflicts: The error for each other column.
        stored: The different types of each column, and a file of each.
    """

    schema: pa.Schema
    conflicts: Mapping[str, str]
    stored: Mapping[str, Sequence[StoredType]]

    @classmethod
    def of(
        cls, schemas: Iterable[tuple[str, pa.Schema]], features: Mapping[str, Feature]
    ) -> CommonTypes:
        """The common types of files.

        Args:
            schemas: The name and the schema of each file, or of one file for each schema.
            features: The features by column.
        """
        stored: dict[str, list[StoredType]] = {}
        for where, schema in schemas:
            for field in schema:
                differing, kind = stored.setdefault(field.name, []), plain(field.type)
                if all(kind != other.kind for other in differing):
                    differing.append(StoredType(kind, where))
        types: dict[str, pa.DataType] = {}
        conflicts: dict[str, str] = {}
        for name, differing in stored.items():
            result = _common(name, differing, features.get(name))
            if isinstance(result, str):
                conflicts[name] = result
            else:
                types[name] = result
        return cls(pa.schema(types), conflicts, stored)

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [*self.schema.names, *self.conflicts]

    @property
    def of_one_type(self) -> list[str]:
        """The columns that have the same type in all files where they have values."""
        return [
            name
            for name, stored in self.stored.items()
            if sum(not pa.types.is_null(one.kind) for one in stored) <= 1
        ]

    def check(self, names: Iterable[str]) -> None:
        """Raises the error for the first of these columns whose types do not fit together."""
        for name in names:
            if name in self.conflicts:
                raise PipelineError(self.conflicts[name])

    def read(
        self,
        table: pa.Table,
        where: str,
        first_row: int = 0,
        encoded: Collection[str] = (),
    ) -> pa.Table:
        """A table of one file, whose columns have the common types.

        Args:
            table: Columns of the file as they are stored.
            where: Name of the file, for errors.
            first_row: Number of the table's first row in the file, for errors.
            encoded: Columns that remain dictionaries, whose texts `ingest` has checked.

        Raises:
            PipelineError: The types of a column do not fit together, a value does not fit the
                common type, or a text is not UTF-8.
        """
        self.check(table.column_names)
        columns = {
            name: column
            if name in encoded and _is_encoded(column.type)
            else self._column(column, name, where, first_row)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        return pa.table(columns) if columns else table  # which keeps its number of rows

    def _column(
        self, column: pa.ChunkedArray, name: str, where: str, first_row: int
    ) -> pa.ChunkedArray:
        kind = self.schema.field(name).type
        becomes_text = kind in (pa.string(), pa.list_(pa.string()))
        try:
            values = plain_column(column)
            check_utf8(values, name, where, first_row, becomes_text)
            return values if values.type == kind else cast_exactly(values, kind)
        except pa.ArrowException as error:
            others = [one for one in self.stored[name] if one.kind != plain(column.type)]
            beside = f", and {others[0].where} has {others[0].kind}" if others else ""
            raise PipelineError(
                f"{where}: column {name!r} has {column.type}{beside}; as {kind}, a value would "
                f"change: {error}. Give all files one type."
            ) from None


def _is_encoded(kind: pa.DataType) -> bool:
    """Whether a type, or that of the values of a list, is a dictionary of texts."""
    values = of_values(kind)
    return bool(pa.types.is_dictionary(values) and values.value_type == pa.string())


def _common(name: str, stored: list[StoredType], feature: Feature | None) -> pa.DataType | str:
    """The type of a column, or the error."""
    known = [one for one in stored if not pa.types.is_null(one.kind)] or stored[:1]
    first, common = known[0], known[0].kind
    if feature is not None and (len(known) > 1 or _must_change(common)):
        return _of_feature(name, known, feature)
    for other in known[1:]:
        promoted = _promoted(common, other.kind)
        if promoted is None:
            return (
                f"{other.where}: column {name!r}: expected {first.kind} as in {first.where}, "
                f"received {other.kind}; give all files one type."
            )
        common = promoted
    return _widened(common)


def _must_change(kind: pa.DataType) -> bool:
    """Whether a feature never has a column of this type, but of another."""
    values = of_values(kind)
    return pa.types.is_null(kind) or pa.types.is_binary(values) or pa.types.is_float16(values)


def _widened(kind: pa.DataType) -> pa.DataType:
    """The type without half floats, for which Arrow has few functions."""
    if is_list(kind):
        return pa.list_(_widened(kind.value_type))
    return pa.float32() if pa.types.is_float16(kind) else kind


def _of_feature(name: str, known: list[StoredType], feature: Feature) -> pa.DataType | str:
    listed = is_listed(feature)
    for number, one in enumerate(known):
        if not accepts(feature.dtype, one.kind, listed):
            other = known[number - 1]
            beside = f" {other.where} has {other.kind}." if len(known) > 1 else ""
            return (
                f"{one.where}: column {name!r}: expected {describe_type(feature)}, received "
                f"{one.kind}.{beside}"
            )
    if feature.dtype == "float32":  # a number of any size may be rounded to it
        return pa.list_(pa.float64()) if listed else pa.float64()
    return arrow_type(feature.dtype, listed)


def _promoted(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, if there is one."""
    if all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in (one, other)):
        return common_time_type(one, other)
    one, other = _alike(one, other), _alike(other, one)
    try:
        schemas = [pa.schema([("x", kind)]) for kind in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None


def _alike(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type of the same values in the other type's family, which Arrow does not promote to."""
    is_whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if is_whole and pa.types.is_decimal(other):
        return pa.decimal128(20)  # Arrow's own choice is too short for an integer
    if pa.types.is_boolean(kind) and not pa.types.is_boolean(other):
        return pa.int8()
    if pa.types.is_binary(kind) and pa.types.is_string(other):
        return pa.string()
    return kind
