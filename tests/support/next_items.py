"""A file of user histories with an item table, and an experiment on them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from pipelines.experiment.config import Experiment, load_experiment
from pipelines.workflow.steps import Steps

ITEMS, USERS, NEGATIVES = 29, 61, 7
EXPERIMENT = """
name = "next"

[data]
source = "sequences"
path = "{folder}/sequences.parquet"
sequences = {{ items = "items", max_length = 5 }}
items = {{ key = "item", path = "{folder}/items.parquet", negatives = 7 }}

[[features]]
kind = "categorical"
name = "item"
dtype = "int64"

[[features]]
kind = "categorical"
name = "tags"
multivalued = true
max_length = 3

[[features]]
kind = "numeric"
name = "price"

[[features]]
kind = "sequence"
name = "history"
shares = "item"
max_length = 5

[[tasks]]
name = "next"

[model]
name = "mlp"
width = 4
units = [8]

[training]
epochs = 1
batch_size = 31
negatives = {{ count = 5 }}
"""


def users(count: int = USERS, seed: int = 5) -> pa.Table:
    """Users with 1 to 9 different items each; none has the last two items of the table."""
    rng = np.random.default_rng(seed)
    lists = [
        (rng.permutation(ITEMS - 2)[: rng.integers(1, 10)] + 100).tolist() for _ in range(count)
    ]
    return pa.table({"user": np.arange(count), "items": pa.array(lists, pa.list_(pa.int32()))})


def items() -> pa.Table:
    """Items from 100 on, some without a price or tags."""
    rng = np.random.default_rng(6)
    tags = [[f"t{t}" for t in rng.integers(0, 5, rng.integers(0, 5))] or None for _ in range(ITEMS)]
    prices = [None if n % 7 == 3 else float(n) for n in range(ITEMS)]
    order = rng.permutation(ITEMS)
    table = pa.table({"item": np.arange(100, 100 + ITEMS), "tags": tags, "price": prices})
    return table.take(pa.array(order))


def write(folder: Path) -> Path:
    """Writes both files and the experiment."""
    pq.write_table(users(), folder / "sequences.parquet")
    pq.write_table(items(), folder / "items.parquet")
    path = folder / "next.toml"
    path.write_text(EXPERIMENT.format(folder=folder), encoding="utf-8")
    return path


def load(folder: Path, **overrides: Any) -> Experiment:
    """The experiment; `training__epochs=3` stands for `training.epochs = 3`."""
    path = folder / "next.toml"
    if not path.exists():
        write(folder)
    return load_experiment(path, {k.replace("__", "."): v for k, v in overrides.items()})


def steps(folder: Path, **overrides: Any) -> Steps:
    """The steps of the experiment in `folder/run`."""
    console = Console(file=io.StringIO(), width=200)
    return Steps.of(load(folder, **overrides), folder / "run", console, force=False)


def prepare(folder: Path) -> None:
    """Makes `folder/run` with the data and the fitted features."""
    made = steps(folder)
    made.ingest()
    made.fit()
