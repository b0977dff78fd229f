"""The data sets of `benchmarks/quality.py`: features, tasks and data, without model and training.

Each set has the columns that a first user would declare, ids of users included, and no transform
but the defaults.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.ranking_quality.drawn_rows import drawn_rows
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets import movielens

ROOT = Path(__file__).parents[2]
_KEPT = ("name", "features", "tasks", "data", "evaluation")
_USERS = 300
_RATINGS = slice(250_000, 370_000)  # in the order of time

Settings = dict[str, Any]


def _experiment(path: str, user: Mapping[str, str] | None = None) -> Settings:
    """The data of one of the repository's experiments, with the user's id as a feature."""
    table = tomllib.loads((ROOT / path).read_text("utf-8"))
    settings = {key: table[key] for key in _KEPT if key in table}
    for feature in settings["features"]:
        if "min_count" in feature.get("transform", {}):
            del feature["transform"]
    if user is not None:
        settings["features"].insert(0, {"kind": "categorical", "side": "context", **user})
    return settings


def _simulated(rows: int) -> Settings:
    """Independent requests, whose rows have their histories."""
    settings = _experiment("pipelines/demo.toml", {"name": "user_id"})
    split = settings["data"]["split"]
    settings["data"] = {"source": "simulate", "simulate": {"rows": rows}, "split": split}
    clicked = settings["features"][-1] | {"max_length": 20}
    categories = clicked | {"name": "clicked_categories", "shares": "category"}
    settings["features"][-1:] = [clicked, categories]
    return settings


def _movielens(folder: Path, keep: Callable[[pa.Table], pa.Table]) -> Settings:
    options = DataOptions(source="movielens-1m", path=f"{os.environ['RECSYS_DATA']}/movielens-1m")
    (file,) = movielens.read(options).parts["all"]
    pq.write_table(keep(pa.concat_tables(list(file.read(None)))), folder / "ratings.parquet")
    user = {"name": "user_id", "dtype": "int64"}
    settings = _experiment("experiments/movielens-1m.toml", user)
    settings["data"] |= {"source": "parquet", "path": str(folder / "ratings.parquet")}
    settings["data"]["split"]["column"] = "timestamp"
    return settings


def _retailrocket(folder: Path) -> Settings:
    """A set for which nothing was chosen: neither a default nor a size."""
    events = pq.read_table(f"{os.environ['RECSYS_DATA']}/retailrocket-sample/events.parquet")
    pq.write_table(drawn_rows(events), folder / "shop.parquet")
    settings = _experiment("benchmarks/ranking_quality/retailrocket.toml")
    settings["data"]["path"] = str(folder / "shop.parquet")
    return settings


def _some_users(table: pa.Table) -> pa.Table:
    users = table["user_id"].to_numpy()
    drawn = np.random.default_rng(0).choice(np.unique(users), _USERS, replace=False)
    return table.filter(pa.array(np.isin(users, drawn)))


def _some_weeks(table: pa.Table) -> pa.Table:
    return table.slice(_RATINGS.start, _RATINGS.stop - _RATINGS.start)


# By name: the settings, made in a folder, and the column of the time.
SETS: Mapping[str, tuple[Callable[[Path], Settings], str | None]] = {
    "simulated": (lambda folder: _simulated(100_000), "timestamp"),
    "simulated-small": (lambda folder: _simulated(30_000), "timestamp"),
    "movielens-users": (lambda folder: _movielens(folder, _some_users), "timestamp"),
    "movielens-weeks": (lambda folder: _movielens(folder, _some_weeks), "timestamp"),
    "trivago": (
        lambda f: _experiment("experiments/trivago.toml", {"name": "user_id"}),
        "timestamp",
    ),
    "retailrocket": (_retailrocket, "time"),
    "frappe": (lambda folder: _experiment("experiments/frappe.toml"), None),
    "census-income": (lambda folder: _experiment("experiments/census-income.toml"), None),
}
