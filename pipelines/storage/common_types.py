"""The type of each column over all files: one rule, and its errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.storage.column_types import accepts, plain
from pipelines.storage.columns import arrow_type, describe_type
from pipelines.storage.texts import check_utf8
from recsys_attn.schema import Feature, is_listed


class StoredType(NamedTuple):
    """The type of a column in a file."""

    kind: pa.DataType
    where: str


@dataclass(frozen=True)
class CommonTypes:
    """The columns of some files, each with the type that all its files are read in.

    The types are Arrow's plain ones (`column_types.plain`). Where files differ, a column has the
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
        found: dict[str, list[StoredType]] = {}
        for where, schema in schemas:
            for field in schema:
                of_column, kind = found.setdefault(field.name, []), plain(field.type)
                if all(kind != each.kind for each in of_column):
                    of_column.append(StoredType(kind, where))
        types: dict[str, pa.DataType] = {}
        conflicts: dict[str, str] = {}
        for name, of_column in found.items():
            result = _common(name, of_column, features.get(name))
            if isinstance(result, str):
                conflicts[name] = result
            else:
                types[name] = result
        return cls(pa.schema(types), conflicts, found)

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [*self.schema.names, *self.conflicts]

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
            return values if values.type == kind else _cast_exactly(values, kind)
        except pa.ArrowException as error:
            others = [each for each in self.stored[name] if each.kind != plain(column.type)]
            beside = f", and {others[0].where} has {others[0].kind}" if others else ""
            raise PipelineError(
                f"{where}: column {name!r} has {column.type}{beside}; as {kind}, a value would "
                f"change: {error}. Give all files one type."
            ) from None


def _is_encoded(kind: pa.DataType) -> bool:
    """Whether it is a dictionary of texts, or lists of them."""
    kind = kind.value_type if pa.types.is_list(kind) else kind
    return bool(pa.types.is_dictionary(kind) and kind.value_type == pa.string())


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in its plain type."""
    if pa.types.is_dictionary(column.type):  # a cast would check texts, and not say where
        chunks = [chunk.dictionary_decode() for chunk in column.chunks]
        column = pa.chunked_array(chunks, column.type.value_type)
    kind = plain(column.type)
    if column.type == kind:
        return column
    if pa.types.is_list_view(column.type) or pa.types.is_large_list_view(column.type):
        return pa.chunked_array([_list_of_view(chunk) for chunk in column.chunks], kind)
    return column.cast(kind)


def _list_of_view(chunk: pa.Array) -> pa.Array:
    """Lists of a view of lists, which Arrow's cast of pyarrow 26 gives wrong offsets."""
    lengths = pc.fill_null(pc.list_value_length(chunk), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = plain_column(pa.chunked_array([chunk.flatten()])).combine_chunks()
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=chunk.is_null())


def _common(name: str, found: list[StoredType], feature: Feature | None) -> pa.DataType | str:
    """The type of a column, or the error."""
    known = [each for each in found if not pa.types.is_null(each.kind)] or found[:1]
    differ = len(known) > 1 or pa.types.is_null(known[0].kind)
    if feature is not None and (differ or _holds_bytes(known[0].kind)):
        return _of_feature(name, known, feature)
    first, common = known[0], known[0].kind
    for other in known[1:]:
        promoted = _promoted(common, other.kind)
        if promoted is None:
            return (
                f"{other.where}: column {name!r}: expected {first.kind} as in {first.where}, "
                f"received {other.kind}; give all files one type."
            )
        common = promoted
    return common


def _holds_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind.value_type if pa.types.is_list(kind) else kind)


def _of_feature(name: str, found: list[StoredType], feature: Feature) -> pa.DataType | str:
    listed = is_listed(feature)
    for number, each in enumerate(found):
        if not accepts(feature.dtype, each.kind, listed):
            other = found[number - 1]
            beside = f" {other.where} has {other.kind}." if len(found) > 1 else ""
            return (
                f"{each.where}: column {name!r}: expected {describe_type(feature)}, received "
                f"{each.kind}.{beside}"
            )
    if feature.dtype == "float32":  # a number of any size may be rounded to it
        return pa.list_(pa.float64()) if listed else pa.float64()
    return arrow_type(feature.dtype, listed)


def _promoted(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, if there is one."""
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
    if pa.types.is_timestamp(other) and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        unit, zone = getattr(kind, "unit", "s"), getattr(kind, "tz", None)
        return pa.timestamp(unit, zone if zone == other.tz else "UTC")  # as all times without one
    if pa.types.is_binary(kind) and pa.types.is_string(other):
        return pa.string()
    return kind


def _cast_exactly(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A cast that raises an `ArrowException` where it would change a value."""
    if pa.types.is_boolean(column.type) and not pa.types.is_integer(kind):
        column = column.cast(pa.int8())
    if pa.types.is_date(column.type) and pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp(kind.unit))
    found = column.cast(kind)
    loses = pa.types.is_decimal(column.type) and pa.types.is_floating(kind)
    if loses and not pc.all(pc.equal(found.cast(column.type), column), min_count=0).as_py():
        raise pa.ArrowInvalid("a decimal has more digits than a float holds")
    return found
