"""Rows of a served run with their outcomes, as `join` writes them, for tests of `refresh`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HOUR = 3600


def hour_name(hour: int) -> str:
    """The name of an hour's file; hours are counted since 1970."""
    return f"{datetime.fromtimestamp(hour * HOUR, UTC):%Y-%m-%dT%H}.parquet"


def this_hour() -> int:
    """The hour of now."""
    return int(datetime.now(UTC).timestamp()) // HOUR


def served_hour(
    hour: int,
    seed: int = 0,
    requests: int = 61,
    versions: tuple[int, ...] = (1,),
    missing: int | None = None,
) -> pa.Table:
    """Requests of three candidates to the model of `tests.support.state_exports`.

    Args:
        hour: The hour since 1970.
        seed: Seed of the draws.
        requests: The number of requests, of users in turn.
        versions: The versions that answer them in turn.
        missing: A version whose answers have no `item_ctr`.
    """
    rng = np.random.default_rng(seed)
    request = np.repeat(np.arange(requests), 3)
    count = len(request)
    item = rng.integers(3, 20, count)
    time = hour * HOUR + request * (HOUR // requests)
    version = np.array(versions)[request % len(versions)]
    lists = [rng.integers(3, 20, rng.integers(4)).tolist() for _ in range(requests)]
    clicked = [lists[number] for number in request]
    rate = np.where(version == missing, np.nan, rng.random(count))
    return pa.table(
        {
            "request": pa.array(hour * 1_000 + request),
            "time": time,
            "user": (request * 7 % 53).astype(str),
            "item": item,
            "clicked": pa.array(clicked, pa.list_(pa.int64())),
            "ages": pa.array([[60.0 * n for n in one] for one in clicked], pa.list_(pa.float32())),
            "item_ctr": pa.array(rate, pa.float32(), from_pandas=True),
            "pair_seen": pa.array(rng.integers(4, size=count), pa.float32()),
            "user_clicks": pa.array(np.repeat(rng.integers(9, size=requests), 3), pa.float32()),
            "country": np.array(["fi", "se", "no"])[request * 7 % 53 % 3],
            "height": pa.array(1.5 + request * 7 % 53 / 100, pa.float32()),
            "click": pa.array((rng.random(count) < 0.1 + item / 40).astype(np.int8)),
            "served_at": pa.array(time * 10**6, pa.timestamp("us", "UTC")),
            "served_version": version,
            "served_label": pa.array(np.where(version == 1, "stable", "canary")),
            "served_state": pa.array(["answered"] * count),
            "served_lag_seconds": rng.random(count),
            "served_score_click": pa.array(0.1 + item / 40 + 0.01 * rng.normal(size=count)).cast(
                pa.float32()
            ),
        }
    )


def write_hours(folder: Path, first: int, count: int, seed: int = 0, **options: Any) -> list[str]:
    """Writes some hours, and returns the names of their files."""
    folder.mkdir(exist_ok=True)
    hours = range(first, first + count)
    for place, hour in enumerate(hours):
        pq.write_table(served_hour(hour, seed + place, **options), folder / hour_name(hour))
    return [hour_name(hour) for hour in hours]
