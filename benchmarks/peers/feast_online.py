"""Feast's online read of the values of `benchmarks/state.py`, in an environment of its own.

    VENV/bin/python benchmarks/peers/feast_online.py FOLDER sqlite|redis://HOST:PORT

`FOLDER` has `user.parquet`, `item.parquet` and `pair.parquet`: keys, features and `at`, the time of
the values. Each line of standard input is a number of rows: prints the milliseconds of some reads
of so many, as a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig
from feast.types import Array, Float32, Int64
from feast.value_type import ValueType

READS = 50  # of a line
FEATURES = {"history": Array(Int64)}  # others are numbers


def store(folder: Path, kind: str) -> FeatureStore:
    """A store on SQLite or Redis, with nothing in it."""
    online: dict[str, Any] = {"type": "sqlite", "path": str(folder / "online.db")}
    if kind != "sqlite":
        online = {
            "type": "redis",
            "connection_string": kind.removeprefix("redis://").partition("/")[0],
        }
    return FeatureStore(
        config=RepoConfig(
            project="bench",
            provider="local",
            registry=str(folder / f"registry-{online['type']}.db"),
            online_store=online,
            entity_key_serialization_version=3,
        )
    )


def fill(feast: FeatureStore, folder: Path) -> list[str]:
    """Declares the views and writes their values; returns the names of the features."""
    entities = {name: Entity(name=name, value_type=ValueType.INT64) for name in ("user", "item")}
    names: list[str] = []
    for view, keys in {"user": ["user"], "item": ["item"], "pair": ["user", "item"]}.items():
        path = folder / f"{view}.parquet"
        values = pd.read_parquet(path)
        columns = [name for name in values.columns if name not in ("user", "item", "at")]
        feature_view = FeatureView(
            name=view,
            entities=[entities[key] for key in keys],
            schema=[Field(name=name, dtype=FEATURES.get(name, Float32)) for name in columns]
            + [Field(name=key, dtype=Int64) for key in keys],
            source=FileSource(path=str(path), timestamp_field="at"),
        )
        feast.apply([*(entities[key] for key in keys), feature_view])
        feast.write_to_online_store(view, values)
        names += [f"{view}:{name}" for name in columns]
    return names


def main() -> None:
    """Prints the times."""
    folder, kind = sys.argv[1:]
    feast = store(Path(folder), kind)
    names = fill(feast, Path(folder))
    users = pd.read_parquet(Path(folder) / "user.parquet")["user"].to_numpy()
    items = pd.read_parquet(Path(folder) / "item.parquet")["item"].to_numpy()
    rng = np.random.default_rng(0)
    for line in sys.stdin:
        times = []
        for _ in range(READS):
            user = int(rng.choice(users))
            rows = [{"user": user, "item": int(item)} for item in rng.choice(items, int(line))]
            start = time.perf_counter()
            feast.get_online_features(features=names, entity_rows=rows).to_dict()
            times.append(1e3 * (time.perf_counter() - start))
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
