"""Hour and weekday of a timestamp."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def hour_and_weekday(seconds: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Hour of the day (0 to 23) and day of the week (0 = Monday) of Unix seconds, in UTC."""
    moment = seconds.cast(pa.timestamp("s"))
    return pc.hour(moment), pc.day_of_week(moment)
