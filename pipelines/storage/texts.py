"""Texts are UTF-8: Parquet does not check, and no later step could read others."""

from __future__ import annotations

import pyarrow as pa

from pipelines.common.arrow_kinds import of_values
from pipelines.common.errors import PipelineError


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
    found = b"|".join(each or b"" for each in _flat(value).cast(pa.binary()).to_pylist())
    return repr(found if len(found) <= 40 else found[:40] + b"...")


def _flat(values: pa.Array) -> pa.Array:
    return values.flatten() if pa.types.is_list(values.type) else values
