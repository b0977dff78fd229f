"""Arrow tables as a type, without importing pyarrow: most clients send dicts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

if TYPE_CHECKING:
    import pyarrow as pa

Table: TypeAlias = "pa.Table | pa.RecordBatch"


def is_table(rows: Any) -> TypeGuard[Table]:
    """Returns whether rows are an Arrow table or record batch."""
    # A program that holds a table has imported pyarrow.
    pyarrow = sys.modules.get("pyarrow")
    kinds = tuple(getattr(pyarrow, name, ()) for name in ("Table", "RecordBatch"))
    return isinstance(rows, kinds)
