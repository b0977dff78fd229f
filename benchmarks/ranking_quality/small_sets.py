"""Small data sets of several kinds, on whose validation rows the defaults are chosen.

A training on one of them takes seconds. Each is a part of a real log, by users, by time or by rows,
or a simulated one; its features are those of `sets.py` or of the repository's experiments.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.ranking_quality.drawn_rows import drawn_rows
from benchmarks.ranking_quality.sets import Settings, _experiment, _movielens, _simulated

_HASHES = 7919  # a prime


def _data(path: str) -> Path:
    return Path(os.environ["RECSYS_DATA"]) / path


def _some(column: pa.Array, share: float) -> pa.Array:
    """Whether a value is one of a share of all values."""
    codes = column.combine_chunks().dictionary_encode()
    drawn = np.random.default_rng(1).random(len(codes.dictionary)) < share
    return pa.array(drawn[codes.indices.to_numpy()])


def _shop(folder: Path) -> Settings:
    """RetailRocket's events of a seventh of the users: most rows have an item that is new."""
    events = pq.read_table(_data("retailrocket-sample/events.parquet"))
    events = events.filter(_some(events["user"], 0.15))
    pq.write_table(drawn_rows(events), folder / "shop.parquet")
    settings = _experiment("benchmarks/ranking_quality/retailrocket.toml")
    settings["data"]["path"] = str(folder / "shop.parquet")
    return settings


def _hotels(folder: Path) -> Settings:
    """Trivago's sessions of a seventh of the users."""
    actions = pq.read_table(_data("trivago-recsys19/actions.parquet"))
    (folder / "trivago").mkdir()
    pq.write_table(
        actions.filter(_some(actions["user_id"], 0.15)), folder / "trivago/actions.parquet"
    )
    settings = _experiment("experiments/trivago.toml", {"name": "user_id"})
    settings["data"]["path"] = str(folder / "trivago")
    return settings


def _films_of_users(folder: Path) -> Settings:
    """MovieLens-1M: 150 users, ids of users among the features."""
    return _movielens(folder, lambda t: t.filter(_some(t["user_id"], 1 / 40)))


def _new_films(folder: Path) -> Settings:
    """MovieLens-1M: 190 users; a half of the films has no rating before the last third."""

    def keep(table: pa.Table) -> pa.Table:
        table = table.filter(_some(pc.add(table["user_id"], 0), 1 / 32))
        cut = np.quantile(table["timestamp"].to_numpy(), 2 / 3)
        late = pc.and_(_some(table["item_id"], 0.5), pc.less(table["timestamp"], cut))
        return table.filter(pc.invert(late))

    return _movielens(folder, keep)


def _census(folder: Path) -> Settings:
    """Census-Income: an eighth of the people of both files."""
    (folder / "census").mkdir()
    for name in ("census-income.data.gz", "census-income.test.gz"):
        lines = gzip.decompress(_data(f"census-income-kdd/{name}").read_bytes()).splitlines(True)
        part = np.flatnonzero(np.random.default_rng(1).random(len(lines)) < 0.13)
        text = b"".join(lines[number] for number in part)
        (folder / "census" / name).write_bytes(gzip.compress(text))
    settings = _experiment("experiments/census-income.toml")
    settings["data"]["path"] = str(folder / "census")
    return settings


def _clicks(folder: Path, source: str, numbers: int, ids: Mapping[str, str]) -> Settings:
    """The first rows of Criteo or Avazu."""
    numeric = [
        {"kind": "numeric", "name": f"I{i + 1}", "transform": ["log1p", "standardise"]}
        for i in range(numbers)
    ]
    label = "label" if source == "criteo" else "click"
    return {
        "name": source,
        "features": [
            *numeric,
            *({"kind": "categorical", "name": n, "dtype": kind} for n, kind in ids.items()),
        ],
        "tasks": [{"name": label}],
        "data": {
            "source": source,
            "path": str(_data(source)),
            "split": {"by": "hash", "valid": 0.2, "test": 0.1},
        },
    }


def _criteo(folder: Path) -> Settings:
    return _clicks(folder, "criteo", 13, {f"C{n}": "string" for n in range(1, 27)})


_CODES = ("C1", "banner_pos", "device_type", "device_conn_type", *(f"C{n}" for n in range(14, 22)))
_NAMES = (
    *(f"{place}_{part}" for place in ("site", "app") for part in ("id", "domain", "category")),
    *(f"device_{part}" for part in ("id", "ip", "model")),
)


def _avazu(folder: Path) -> Settings:
    return _clicks(
        folder, "avazu", 0, dict.fromkeys(_CODES, "int64") | dict.fromkeys(_NAMES, "string")
    )


def _measured(make: Callable[[Path], Settings], folder: Path) -> Settings:
    """A set with many validation rows: a choice on few would be luck."""
    settings = make(folder)
    split = settings["data"]["split"]
    if split["by"] != "provided":
        split |= {"valid": 0.3, "test": 0.05}
    return settings


_MAKERS: Mapping[str, Callable[[Path], Settings]] = {
    "shop": _shop,
    "hotels": _hotels,
    "films": _films_of_users,
    "new-films": _new_films,
    "market": lambda folder: _simulated(30_000),
    "census": _census,
    "criteo": _criteo,
    "avazu": _avazu,
}
SMALL: Mapping[str, Callable[[Path], Settings]] = {
    name: partial(_measured, make) for name, make in _MAKERS.items()
}
