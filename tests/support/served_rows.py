"""Served rows with their outcomes, as `recsys-attn join` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START = np.datetime64("2026-11-29T07", "h")


@dataclass
class ServedHours:
    """Random served rows of a click model, by hour, and faults to plant in them.

    Users differ in how often they click, so the rows of a user depend on each other.

    Args:
        seed: Seed of the draws.
        hours: Number of hours.
        requests: Requests of an hour, of 3 candidates each.
        share: Share of the requests that the canary answers.
    """

    seed: int = 0
    hours: int = 5
    requests: int = 400
    share: float = 0.3
    stable: int = 7
    canary: int = 8
    columns: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        count = self.hours * self.requests
        users = rng.integers(0, 97, count)
        version = np.where(rng.random(count) < self.share, self.canary, self.stable)
        hour = np.sort(rng.integers(0, self.hours, count))
        second = rng.integers(0, 3600, count)

        def spread(values: np.ndarray) -> np.ndarray:
            return np.repeat(values, 3)

        rows = 3 * count
        logit = spread(rng.normal(0, 0.7, 97)[users]) + rng.normal(-1, 1, rows)
        label = rng.random(rows) < 1 / (1 + np.exp(-logit))
        self.columns = {
            "request_id": spread(np.array([f"r{n}" for n in range(count)])),
            "user_id": spread(users),
            "price": rng.normal(0, 1, rows),
            "missing": rng.random(rows) < 0.1,
            "label": label,
            "logit": logit,
            "hour": spread(hour),
            "second": spread(second),
            "version": spread(version),
            "state": np.full(rows, "answered", object),
            "lag": np.full(rows, 0.5) + rng.random(rows),
        }

    def of_canary(self, since: int = 0) -> np.ndarray:
        """The canary's rows from an hour on."""
        return (self.columns["version"] == self.canary) & (self.columns["hour"] >= since)

    def table(self) -> pa.Table:
        """All rows."""
        of = self.columns
        users = np.array([f"u{n}" for n in of["user_id"]], object)
        score = (1 / (1 + np.exp(-of["logit"]))).astype(np.float32)
        at = (START + of["hour"]).astype("datetime64[us]") + of["second"].astype("timedelta64[s]")
        label = np.where(of["version"] == self.canary, "canary", "stable")
        columns: Mapping[str, Any] = {
            "request_id": of["request_id"],
            "user_id": users,
            "item_id": np.arange(len(users)) % 11,
            "price": pa.array(np.where(of["missing"], np.nan, of["price"]), pa.float32()),
            "clicked_items": pa.array([[1, 2]] * len(users), pa.list_(pa.int64())),
            "click": pa.array(of["label"].astype(np.int8)),
            "conversion": pa.array((of["label"] & (of["price"] > 0)).astype(np.int8)),
            "served_at": pa.array(at, pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            "served_version": pa.array(of["version"], pa.int64()),
            "served_label": pa.array(label, pa.string()),
            "served_state": pa.array(of["state"], pa.string()),
            "served_lag_seconds": pa.array(of["lag"], from_pandas=True),
            "served_score_click": score,
            "served_score_conversion": score / 2,
        }
        return pa.table(columns)

    def write(self, folder: Path) -> Path:
        """Writes a file for each hour."""
        folder.mkdir(exist_ok=True)
        table = self.table()
        for hour in range(self.hours):
            of_hour = table.filter(pa.array(self.columns["hour"] == hour))
            pq.write_table(of_hour, folder / f"{START + hour}.parquet")
        return folder
