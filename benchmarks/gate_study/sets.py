"""The data sets of `benchmarks/gates.py`, drawn anew by each seed.

A seed draws a simulated world, or a part of a real log, so that intervals over seeds are of other
data too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.boards_on_jax.write import rows_of
from benchmarks.ranking_quality.drawn_rows import drawn_rows
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.features import FittedFeatures
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets import census_income
from pipelines.workflow.quiet_run import DATA_STEPS, run_quietly

ROOT = Path(__file__).parents[2]
ROWS = 50_000
EVENTS = 17_000  # of RetailRocket, with two drawn items each
PARTS = {"valid": 0.32, "test": 0.32}  # much is measured, as differences are small

Arrays = dict[str, np.ndarray]
Settings = dict[str, Any]


class DrawnSet(NamedTuple):
    """A set with the rows of several seeds.

    Attributes:
        schema: The features, with the largest vocabulary of all seeds.
        arrays: The rows by name, as of `boards_on_jax`, with an axis of seeds first.
    """

    schema: dict[str, Any]
    arrays: Arrays


def _two_tasks(correlation: float, folder: Path, seed: int) -> Settings:
    """Independent requests; the logits of both tasks have this correlation."""
    return {"data.simulate.rows": ROWS, "data.simulate.correlation": correlation}


def _market(folder: Path, seed: int) -> Settings:
    """The demo's log: users come back, histories are made of the log, tastes move."""
    return {"data.simulate.rows": ROWS, "data.simulate.drift": 0.3}


def _census(folder: Path, seed: int) -> Settings:
    """Some people of both files of Census-Income."""
    path = f"{os.environ['RECSYS_DATA']}/census-income-kdd"
    files = census_income.read(DataOptions(source="census-income", path=path)).parts.values()
    people = pa.concat_tables([table for (file,) in files for table in file.read(None)])
    drawn = np.random.default_rng(seed).choice(len(people), ROWS, replace=False)
    return _in_a_file(people.take(drawn), folder) | {"data.split": {"by": "hash"}}


def _shop(folder: Path, seed: int) -> Settings:
    """All events of some users of RetailRocket: views, and carts among the viewed items."""
    events = pq.read_table(f"{os.environ['RECSYS_DATA']}/retailrocket-sample/events.parquet")
    user = events["user"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.random.default_rng(seed).permutation(user.max() + 1)
    few = order[np.cumsum(np.bincount(user)[order]) <= EVENTS]
    rows = drawn_rows(events.filter(np.isin(user, few)))
    return _in_a_file(rows, folder) | {"data.request": None, "model": {"name": "mmoe"}}


def _in_a_file(table: pa.Table, folder: Path) -> Settings:
    pq.write_table(table, folder / "rows.parquet")
    return {"data.source": "parquet", "data.path": str(folder / "rows.parquet")}


# The experiment and its changes, by a folder and a seed.
SETS: Mapping[str, tuple[str, Callable[[Path, int], Settings]]] = {
    **{
        f"r={correlation}": ("experiments/two-tasks.toml", partial(_two_tasks, correlation))
        for correlation in (-0.5, 0.0, 0.5, 1.0)
    },
    "market": ("pipelines/demo.toml", _market),
    "census": ("experiments/census-income.toml", _census),
    "shop": ("benchmarks/ranking_quality/retailrocket.toml", _shop),
}


def drawn_set(folder: Path, name: str, seeds: Sequence[int]) -> DrawnSet:
    """Reads the rows of a set for some seeds; makes those that are not there.

    Args:
        folder: The folder of the rows, one file for each seed.
        name: The set.
        seeds: The seeds.
    """
    drawn = [_drawn(folder / f"{name} {seed}.npz", name, seed) for seed in seeds]
    schema = drawn[0].schema
    for place, feature in enumerate(schema["features"]):
        if "size" in feature:
            feature["size"] = max(one.schema["features"][place]["size"] for one in drawn)
    arrays = {}
    for key in drawn[0].arrays:
        parts = [one.arrays[key] for one in drawn]
        count = min(map(len, parts))  # the last of them: parts are in the order of time
        arrays[key] = np.stack([part[-count:] for part in parts])
    return DrawnSet(schema, arrays)


def _drawn(path: Path, name: str, seed: int) -> DrawnSet:
    """The rows of one seed."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory() as temporary:
            experiment, run = _experiment(name, Path(temporary), seed), Path(temporary) / "run"
            run_quietly(experiment, run, steps=DATA_STEPS)
            fitted = FittedFeatures.load(run / "features")
            rows: dict[str, Any] = rows_of(run, fitted, experiment.data.request)
        np.savez_compressed(path, schema=json.dumps(fitted.schema.to_dict()), **rows)
    with np.load(path) as file:
        arrays = dict(file)
    return DrawnSet(json.loads(str(arrays.pop("schema"))), arrays)


def _experiment(name: str, folder: Path, seed: int) -> Experiment:
    """The experiment whose data are those of a seed."""
    file, changes = SETS[name]
    parts = {f"data.split.{part}": share for part, share in PARTS.items()}
    return load_experiment(ROOT / file, changes(folder, seed) | parts | {"seed": seed})
