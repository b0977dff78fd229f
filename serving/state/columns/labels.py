"""Labels and numbers of a column: the values that count, and the errors for others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from serving.state.columns.arrow_kinds import is_number
from serving.state.errors import DataError

LABEL_ADVICE = (
    "Write 1 for yes, 0 for no and null for unknown; of a number such as stars or seconds, write 1 "
    "from a limit on and 0 below it."
)


def is_one(column: pa.ChunkedArray) -> np.ndarray:
    """Whether each number is 1; a null is not."""
    return pc.fill_null(pc.equal(column.cast(pa.float64()), 1.0), False).to_numpy()


def check_finite(
    column: pa.ChunkedArray,
    name: str,
    where: str,
    first_row: int | None,
    wide: pa.ChunkedArray | None = None,
) -> None:
    """Raises an error for NaN and infinity; `wide` holds the numbers before a cast to float32."""
    bad = pc.invert(pc.fill_null(pc.is_finite(column), True))
    index = pc.index(bad, True).as_py()
    if index < 0:
        return
    row = "" if first_row is None else f" in row {first_row + index}"
    if wide is not None:
        raise DataError(
            f"{where}: column {name!r}: expected float32, and {wide[index].as_py()}{row} does not "
            "fit float32; store a smaller number, or null where a value is missing."
        )
    raise DataError(
        f"{where}: column {name!r}: expected finite numbers, received {column[index].as_py()}"
        f"{row}; store null where a value is missing."
    )


def cast_label(
    column: pa.ChunkedArray,
    name: str,
    where: str,
    first_row: int,
    role: str = "label",
    null: str = "unknown",
) -> pa.ChunkedArray:
    """Returns labels as int8.

    Raises:
        DataError: A label is neither 0, 1 nor null.
    """
    kind = column.type
    if not (is_number(kind) or pa.types.is_null(kind)):
        raise DataError(
            f"{where}: column {name!r}: expected a {role} of 0, 1 or null, received {kind}. "
            f"{LABEL_ADVICE}"
        )
    values = column.cast(pa.float64(), safe=False)
    valid = pc.fill_null(pc.or_(pc.equal(values, 0.0), pc.equal(values, 1.0)), True)
    index = pc.index(valid, False).as_py()
    if index >= 0:
        raise DataError(
            f"{where}: column {name!r}: expected a {role} of 0, 1 or null ({null}), received "
            f"{column[index].as_py()} in row {first_row + index}. {LABEL_ADVICE}"
        )
    return values.cast(pa.int8())
