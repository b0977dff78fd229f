"""Memory and speed of pretraining by the number of events: is memory flat?

    python -m benchmarks.sequence_memory --events 1,5,20 --items 1000000

Draws logs of so many million events: one of each item of the catalogue, then popular and rare ones,
so that all logs have the same vocabulary. For each, in a process of its own, it ingests the log,
fits the vocabulary and takes training steps of SASRec with a sampled softmax and lazy Adam. Prints
the seconds of ingest, the time of a step and the peak of the memory, after ingest and at the end.
Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

_BLOCK = 1_000_000
_LENGTH = 50


def write_events(path: Path, events: int, items: int) -> None:
    """Writes a log in the order of time; a user has 20 events on average."""
    rng = np.random.default_rng(0)
    users = max(1, events // 20)
    each_item = rng.permutation(items)
    writer: pq.ParquetWriter | None = None
    for begin in range(0, events, _BLOCK):
        count = min(_BLOCK, events - begin)
        rank = np.exp(rng.random(count) * np.log(items)).astype("int64")  # log-uniform
        item = np.minimum(rank + rng.integers(0, 1 + rank // 4, count), items - 1)
        first = each_item[begin : begin + count]
        item[: len(first)] = first
        table = pa.table(
            {
                "user": rng.integers(0, users, count),
                "item": item,
                "time": begin + np.arange(count),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def peak() -> float:
    """Peak memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(path: Path, folder: Path, steps: int) -> Iterator[tuple[str, Any]]:
    """Ingests, fits and trains; yields the numbers by name."""
    from pipelines.pretraining.experiment import SequenceExperiment

    loss = {"class_name": "sampled_softmax", "config": {"negatives": 512}}
    experiment: SequenceExperiment = SequenceExperiment.model_validate(
        {
            "name": "memory",
            "max_length": _LENGTH,
            "data": {"path": str(path), "user": "user", "item": "item", "time": "time"},
            "model": {"name": "sasrec", "width": 64},
            "objectives": ({"name": "next_item", "loss": loss},),
            "training": {"optimizer": "lazy_adam", "embeddings_l2": 0.0, "batch_size": 128},
        }
    )
    begin = time.perf_counter()
    trainer = _prepared(experiment, folder)
    yield "seconds", round(time.perf_counter() - begin, 1)
    yield "before training", round(peak(), 2)
    times = []
    feed, step = trainer
    for batch in feed.batches():
        begin = time.perf_counter()
        step([batch.blocks])
        times.append(time.perf_counter() - begin)
        if len(times) == steps + 3:
            break
    yield "ms a step", round(1000 * float(np.median(times[3:])))
    yield "peak", round(peak(), 2)


def _prepared(experiment: Any, folder: Path) -> tuple[Any, Any]:
    """The feed and the step of an experiment, after its ingest and its fit."""
    from pipelines.common.artifacts import FEATURES
    from pipelines.features import FittedFeatures
    from pipelines.feed import Feed, Layout
    from pipelines.pretraining.experiment import build_objectives, build_sequence_model
    from pipelines.pretraining.schema import with_length
    from pipelines.pretraining.sequence_step import SequenceStep, trained_variables
    from pipelines.pretraining.sequence_steps import SequenceSteps
    from pipelines.storage.dataset import DataSplit
    from pipelines.training.optimizer import make_optimizer

    steps = SequenceSteps.of(experiment, folder, Console(quiet=True), force=False)
    steps.ingest()
    steps.fit()
    fitted = FittedFeatures.load(folder / FEATURES)
    model = build_sequence_model(experiment, fitted.schema)
    objectives = build_objectives(experiment, model, fitted.schema)
    optimizer = make_optimizer(experiment.training, trained_variables(model, objectives))
    longer = with_length(fitted, _LENGTH + 1)
    feed = Feed(DataSplit(folder / "data/train"), longer, None, 128, seed=1)
    counts = np.ones(model.size, "float32")
    return feed, SequenceStep(model, objectives, optimizer, Layout.of(longer.schema), counts)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", default="1,5,20", help="millions of events")
    parser.add_argument("--items", type=int, default=1_000_000, help="items that are drawn from")
    parser.add_argument("--steps", type=int, default=20, help="timed steps")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        path, folder = map(Path, options.measure)
        print(json.dumps(dict(measure(path, folder, options.steps))))
        return
    names = ("million events", "ingest and fit, s", "peak then, GB", "ms a step", "peak, GB")
    table = Table(*names, box=None)
    for millions in map(float, options.events.split(",")):
        with TemporaryDirectory() as place:
            path = Path(place) / "events.parquet"
            write_events(path, int(millions * 1e6), options.items)
            child = [sys.executable, "-m", "benchmarks.sequence_memory"]
            child += ["--measure", str(path), str(Path(place) / "run")]
            child += ["--steps", str(options.steps)]
            process = subprocess.run(child, check=True, capture_output=True, text=True)
            figures = json.loads(process.stdout.splitlines()[-1])
            table.add_row(f"{millions:g}", *map(str, figures.values()))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
