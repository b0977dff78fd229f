"""A small log of events, and an experiment on it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from pipelines.pretraining.experiment import SequenceExperiment, load_sequence_experiment
from pipelines.pretraining.sequence_steps import SequenceSteps
from pipelines.training.checkpoint import Checkpoints

ITEMS, USERS, LENGTH = 29, 61, 5
EXPERIMENT = """
name = "small"
seed = 3
max_length = 5

[data]
source = "events"
path = "{folder}/events.parquet"
user = "who"
item = "film"
time = "at"
session = "visit"
columns = ["kind", "genre"]

[model]
name = "sasrec"
width = 8
num_layers = 1

[[objectives]]
name = "next_item"

[[objectives]]
name = "attributes"
column = "genre"
weight = 0.3

[[objectives]]
name = "session_order"
weight = 0.2

[training]
epochs = 2
batch_size = 13

[evaluation]
at = [3, 10]

[export]
top = 7
"""
BERT4REC = {
    "model": {"name": "bert4rec", "width": 8, "num_layers": 1},
    "objectives": [{"name": "masked_item"}, {"name": "contrastive", "weight": 0.1}],
}


def log() -> pa.Table:
    """Users with 1 to 11 events; an item repeats, and is of one genre."""
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 12, USERS)
    user = np.repeat(np.arange(USERS), counts)
    item = np.minimum(rng.integers(0, ITEMS, len(user)), rng.integers(0, ITEMS, len(user)))
    return pa.table(
        {
            "who": user,
            "film": [f"film {number}" for number in item],
            "at": np.cumsum(rng.integers(0, 5000, len(user))),
            "visit": rng.integers(0, 3, len(user)),
            "kind": rng.choice(["view", "buy"], len(user)),
            "genre": [f"genre {number % 4}" for number in item],
        }
    )


def load(folder: Path, **overrides: Any) -> SequenceExperiment:
    """The experiment; `training__epochs=3` stands for `training.epochs = 3`."""
    path = folder / "small.toml"
    if not path.exists():
        pq.write_table(log(), folder / "events.parquet")
        path.write_text(EXPERIMENT.format(folder=folder), "utf-8")
    values = {key.replace("__", "."): value for key, value in overrides.items()}
    return load_sequence_experiment(path, values)


def steps(folder: Path, run: str = "run", **overrides: Any) -> SequenceSteps:
    """The steps of the experiment in the subfolder `run`."""
    console = Console(file=io.StringIO(), width=200)
    return SequenceSteps.of(load(folder, **overrides), folder / run, console, force=False)


def printed(made: SequenceSteps) -> str:
    file = made.console.file
    return file.getvalue() if isinstance(file, io.StringIO) else ""


def state_of(run: Path) -> dict[str, np.ndarray]:
    """All that is learned or drawn, after the last step of the training in a run folder."""
    last = Checkpoints(run / "checkpoints").newest
    assert last is not None
    return dict(last.arrays())


def finish(folder: Path) -> None:
    """Runs all steps."""
    steps(folder).everything()
