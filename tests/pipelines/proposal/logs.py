"""A small feed's log with columns of all kinds."""

from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 6007
START = 1_760_000_000_000


def feed(rows: int = ROWS) -> dict[str, Any]:
    """Users, videos and their authors, two labels, outcomes that are none, and odd columns."""
    rng = np.random.default_rng(0)
    user, video = rng.integers(101, size=rows), rng.integers(211, size=rows)
    click = rng.random(rows) < 0.2 + 0.2 * (video % 2)
    seconds = rng.exponential(10, size=rows)
    return {
        "userId": user,
        "video_id": video,
        "author_id": video % 23,
        "country": [f"c{u % 5}" for u in user],
        "shown_at": START + np.sort(rng.integers(10**9, size=rows)),
        "is_click": click.astype(np.int8),
        "is_like": click & (rng.random(rows) < 0.3),
        "is_rand": rng.integers(2, size=rows),
        "duration": rng.lognormal(3, 1, size=rows),
        "age": user % 47,
        "watched": click * seconds,
        "dwell": pa.array(np.where(click, seconds, np.nan), from_pandas=True),
        "tags": [[f"t{v % 5}", f"t{v % 7}"] for v in video],
        "seen": [[int(v), 5] for v in video[::-1]],
        "vector": [[0.5, float(v)] for v in video],
        "words": [f"text {row}" for row in range(rows)],
        "seen_on": pa.array(np.arange(rows) // 400, pa.int32()).cast(pa.date32()),
        "nan": np.where(video == 3, np.nan, 1.0),
        "nothing": pa.nulls(rows),
        "user.zip": user,
    }
