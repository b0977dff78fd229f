"""Checks tables against the schema: columns, types, labels and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.storage.columns import accepts, arrow_type, describe_type, plain
from pipelines.storage.exact_casts import plain_column, rounded_integer, with_values
from recsys_attn.schema import Feature, Numeric, Schema, is_listed
from serving.state.columns.arrow_kinds import is_list
from serving.state.columns.labels import cast_label, check_finite
from serving.state.errors import require_column


def check_table(
    table: pa.Table, schema: Schema, where: str, labels: bool = True, first_row: int = 0
) -> pa.Table:
    """The table with the schema's columns in their exact types.

    What `storage.columns` accepts becomes the feature's type: integers widen to int64, whole
    floats become int64, any number becomes float32; labels become int8. Nothing else is rounded,
    cut or guessed.

    Args:
        table: Rows with one column per feature, and per label where `labels`.
        schema: The expected columns.
        where: Name of the file, for errors.
        labels: Whether label and mask columns are required.
        first_row: Number of the table's first row in its file, for errors.

    Raises:
        PipelineError: A column is missing or of another type, a number is NaN or infinite, the
            lists of one history differ in length, or a label is neither 0, 1 nor null.
    """
    for feature in schema.features:
        role = "`column` of a feature" if feature.column else "feature"
        column = _column(table, feature.name, f"{role}, {describe_type(feature)}", where)
        checked = _cast_feature(column, feature, where, first_row)
        table = _replace(table, feature.name, checked)
    for sequences in schema.histories.values():
        _check_aligned(table, [sequence.name for sequence in sequences], where, first_row)
    label_names = _unique(task.label_column for task in schema.tasks)
    for name in label_names if labels else ():
        column = _column(table, name, "label, 0 or 1 or null", where)
        table = _replace(table, name, cast_label(column, name, where, first_row))
    for name in _unique(task.mask for task in schema.tasks) if labels else ():
        column = _column(table, name, "mask, 0 or 1 or bool", where)
        mask = cast_label(column, name, where, first_row, "mask", "false")
        if name not in {*label_names, *(feature.name for feature in schema.features)}:
            table = _replace(table, name, pc.fill_null(mask.cast(pa.bool_()), False))
    return table


def _check_aligned(table: pa.Table, names: Sequence[str], where: str, first_row: int) -> None:
    """Checks that the sequences of one history are equally long in every row."""
    lengths = [pc.fill_null(pc.list_value_length(table[name]), 0).to_numpy() for name in names]
    for name, other in zip(names[1:], lengths[1:], strict=True):
        different = np.flatnonzero(lengths[0] != other)
        if len(different):
            row = int(different[0])
            raise PipelineError(
                f"{where}: columns {names[0]!r} and {name!r}: expected lists of one length, as "
                f"both are of one history, received {lengths[0][row]} and {other[row]} events in "
                f"row {first_row + row}; align them, or give one of them another `history`."
            )


def _column(table: pa.Table, name: str, role: str, where: str) -> pa.ChunkedArray:
    require_column(table.column_names, name, role, where)
    return table[name]


def _unique(names: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name is not None))


def _replace(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    if column is table[name]:
        return table
    return table.set_column(table.column_names.index(name), name, column)


def _cast_feature(
    column: pa.ChunkedArray, feature: Feature, where: str, first_row: int
) -> pa.ChunkedArray:
    if not accepts(feature.dtype, column.type, is_listed(feature)):
        hint = _hint(feature, column.type)
        raise _type_error(where, feature.name, describe_type(feature), column.type, hint)
    column = plain_column(column)
    if not is_listed(feature):
        return _cast(column, feature, where, first_row)
    kind = arrow_type(feature.dtype, listed=True)
    if pa.types.is_null(column.type):
        return column.cast(kind)
    if column.type == kind and feature.dtype != "float32":
        return column
    return with_values(column, lambda flat: _cast(flat, feature, where, None), kind.value_type)


def _cast(
    column: pa.ChunkedArray, feature: Feature, where: str, first_row: int | None
) -> pa.ChunkedArray:
    """One column, or the flat values of a list column (then without row numbers)."""
    kind, dtype, name = column.type, feature.dtype, feature.name
    if kind == arrow_type(dtype) and dtype != "float32":
        return column
    if pa.types.is_floating(kind):
        check_finite(column, name, where, first_row)
        if dtype == "int64":
            _check_not_rounded(column, name, where, first_row)
    try:
        if dtype != "float32":
            return column.cast(arrow_type(dtype))
        number = column.cast(pa.float64(), safe=False).cast(pa.float32(), safe=False)
    except pa.ArrowInvalid as error:
        hint = _hint(feature, kind) if pa.types.is_unsigned_integer(kind) else ""
        raise PipelineError(
            f"{where}: column {name!r}: expected {describe_type(feature)}, received {kind} with a "
            f"value that does not fit: {error}.{hint}"
        ) from error
    check_finite(number, name, where, first_row, column)
    return number


def _check_not_rounded(
    column: pa.ChunkedArray, name: str, where: str, first_row: int | None
) -> None:
    """Raises an error for floats to which more than one integer is rounded."""
    index = rounded_integer(column)
    if index >= 0:
        row = "" if first_row is None else f" in row {first_row + index}"
        raise PipelineError(
            f"{where}: column {name!r}: expected int64, received {column[index].as_py()}{row}, a "
            f"{column.type} to which several integers are rounded; store the ids as integers."
        )


def _hint(feature: Feature, kind: pa.DataType) -> str:
    """Advice for a column of another type than its feature's."""
    if is_list(kind):
        return _list_hint(feature, plain(kind).value_type)
    if is_listed(feature):
        return " Store a list of values in each row, or declare a feature of one value per row."
    if isinstance(feature, Numeric):
        return ' A numeric feature holds numbers: declare kind = "categorical", or change the file.'
    if pa.types.is_uint64(kind):
        return ' Declare it with dtype = "string": hashes of 64 bits are ids by their digits.'
    if pa.types.is_temporal(kind):
        return (
            " Write the date as a text, or its seconds as a number; `data.histories` makes ages "
            "of events."
        )
    return _declare(kind)


def _list_hint(feature: Feature, kind: pa.DataType) -> str:
    if pa.types.is_nested(kind):
        return " Each row may have one list of single values; write the inner ones to columns."
    if is_listed(feature):
        return _declare(kind)
    if isinstance(feature, Numeric) or pa.types.is_floating(kind):
        return (
            " A vector is not one feature: write each of its numbers to a column of its own, each "
            'a feature with kind = "numeric".'
        )
    return (
        ' A list of values in each row is a feature with kind = "sequence" where order counts, '
        'or kind = "categorical" with multivalued = true where it does not.'
    )


def _declare(kind: pa.DataType) -> str:
    """The `dtype` that has this type."""
    kind = plain(kind)
    fits = {
        "string": pa.types.is_string(kind),
        "int64": pa.types.is_integer(kind) or pa.types.is_boolean(kind),
        "float32": pa.types.is_floating(kind),
    }
    return "".join(
        f' Declare it with dtype = "{name}", or change the file.'
        for name, fit in fits.items()
        if fit
    )


def _type_error(
    where: str, name: str, expected: str, kind: pa.DataType, hint: str
) -> PipelineError:
    return PipelineError(f"{where}: column {name!r}: expected {expected}, received {kind}.{hint}")
