"""Casts of columns that change no value, and the check that texts are UTF-8."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.storage.columns import plain
from serving.state.columns.arrow_kinds import is_list, of_values

_DIGITS = {pa.float32(): 24, pa.float64(): 53}


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in its plain type (`columns.plain`)."""
    if pa.types.is_dictionary(column.type):  # a cast would check texts, and not say where
        chunks = [chunk.dictionary_decode() for chunk in column.chunks]
        column = pa.chunked_array(chunks, column.type.value_type)
    kind = plain(column.type)
    if column.type == kind:
        return column
    if is_list(column.type):
        return with_values(column, plain_column, kind.value_type)
    return column.cast(kind)


def with_values(
    column: pa.ChunkedArray, change: Callable[[pa.ChunkedArray], pa.ChunkedArray], kind: pa.DataType
) -> pa.ChunkedArray:
    """Lists of any layout as `list`, with other values.

    Args:
        column: The lists.
        change: Changes the values of all lists.
        kind: The type of the changed values.
    """
    chunks = []
    for chunk in column.chunks:  # not a cast, which gives lists of views wrong offsets
        lengths = pc.fill_null(pc.list_value_length(chunk), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        values = change(pa.chunked_array([chunk.flatten()])).combine_chunks()
        chunks.append(pa.ListArray.from_arrays(offsets, values, mask=chunk.is_null()))
    return pa.chunked_array(chunks, pa.list_(kind))


def cast_exactly(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A plain column in another type.

    Raises:
        ArrowException: A value would change, or might have: a float to which several integers are
            rounded becomes no integer.
    """
    if is_list(column.type) and is_list(kind):
        values = kind.value_type
        return with_values(column, lambda flat: cast_exactly(flat, values), values)
    if pa.types.is_boolean(column.type) and not pa.types.is_integer(kind):
        column = column.cast(pa.int8())
    if pa.types.is_date(column.type) and pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("s"))
    if pa.types.is_timestamp(kind):  # no zone first: a cast between zones keeps the instants
        column = column.cast(pa.timestamp(kind.unit, getattr(column.type, "tz", None)))
    index = rounded_integer(column) if pa.types.is_integer(kind) else -1
    if index >= 0:
        raise pa.ArrowInvalid(f"several integers are rounded to {column[index].as_py()}")
    exact = column.cast(kind)
    loses = pa.types.is_decimal(column.type) and pa.types.is_floating(kind)
    if loses and not pc.all(pc.equal(exact.cast(column.type), column), min_count=0).as_py():
        raise pa.ArrowInvalid("a decimal has more digits than a float holds")
    return exact


def rounded_integer(column: pa.ChunkedArray) -> int:
    """Index of the first float to which more than one integer is rounded; -1 if there is none."""
    digits = _DIGITS.get(column.type)
    return -1 if digits is None else pc.index(pc.less(pc.abs(column), 2.0**digits), False).as_py()


def check_utf8(
    column: pa.ChunkedArray, name: str, where: str, first_row: int, becomes_text: bool = False
) -> None:
    """Checks the bytes of a column of texts, or of lists of texts.

    Args:
        column: Any column in its plain type.
        name: Its name, for errors.
        where: Name of the file, for errors.
        first_row: Number of the column's first row in the file, for errors.
        becomes_text: Whether bytes will be read as texts.

    Raises:
        PipelineError: Some bytes are not UTF-8.
    """
    kind = of_values(column.type)
    if not (pa.types.is_string(kind) or (becomes_text and pa.types.is_binary(kind))):
        return
    for chunk in column.chunks:
        if not _is_utf8(chunk):
            row = next(row for row in range(len(chunk)) if not _is_utf8(chunk.slice(row, 1)))
            raise PipelineError(
                f"{where}: column {name!r}: expected texts in UTF-8, received the bytes "
                f"{_bytes(chunk.slice(row, 1))} in row {first_row + row}; write the texts again as "
                "UTF-8, or leave the column out."
            )
        first_row += len(chunk)


def _is_utf8(values: pa.Array) -> bool:
    values = _flat(values)
    try:
        if pa.types.is_string(values.type):
            values.validate(full=True)
        else:
            values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _bytes(value: pa.Array) -> str:
    """The beginning of the bytes of one row."""
    content = b"|".join(text or b"" for text in _flat(value).cast(pa.binary()).to_pylist())
    return repr(content if len(content) <= 40 else content[:40] + b"...")


def _flat(values: pa.Array) -> pa.Array:
    return values.flatten() if pa.types.is_list(values.type) else values
