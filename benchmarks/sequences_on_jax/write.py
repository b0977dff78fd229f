"""Writes the runs of `benchmarks/next_item_models.py` for a machine without TensorFlow.

    python -m benchmarks.sequences_on_jax.write --data data/movielens-1m --folder runs/on-jax

Each run becomes a JSON file with the model, its schema and its options; the sequences of ids, as
the feed of the pipelines makes them, go to one compressed file for each way to split them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.next_item_models import (
    ENTRIES,
    SPLIT_BY_TIME,
    UNSTABLE,
    Entry,
    experiment_of,
    unstable,
)
from pipelines.features import FittedFeatures
from pipelines.pretraining.evaluated_histories import EvaluatedHistories, read_histories
from pipelines.pretraining.experiment import SequenceExperiment, seen_by_model
from pipelines.pretraining.schema import with_length
from pipelines.pretraining.sequence_steps import SequenceSteps
from pipelines.storage.dataset import DataSplit

TRAINING = ("epochs", "batch_size", "learning_rate", "patience")  # all that the loop knows
BY_TIME = ("SASRec, softmax", "SASRec, BCE", "eSASRec", "BERT4Rec", "HSTU")


class Run(NamedTuple):
    """A run: its model, its kind of split and of sort, and the keys of its experiment."""

    name: str
    split: str
    entry: Entry

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.split}-{self.name.lower().replace(', ', '-')}"


def all_runs(data: Path, folder: Path) -> list[Run]:
    """Returns the runs: every model, and some with another split or another sort.

    Args:
        data: The folder with ml-1m.zip.
        folder: Folder for the events of the other sort.
    """
    by_time = {"data.split": SPLIT_BY_TIME}
    order = unstable(data, folder)
    return [
        *(Run(name, "last", entry) for name, entry in ENTRIES.items()),
        *(Run(name, "by-time", ENTRIES[name].changed(by_time)) for name in BY_TIME),
        *(
            Run(name, "last-unstable", ENTRIES[name].changed(order, published))
            for name, published in UNSTABLE.items()
        ),
    ]


def sequences(
    experiment: SequenceExperiment, folder: Path, console: Console
) -> tuple[FittedFeatures, dict[str, np.ndarray]]:
    """Runs ingest and fit; returns the transforms, and the arrays by name."""
    steps = SequenceSteps.of(experiment, folder, console, force=False)
    steps.ingest()
    steps.fit()
    fitted = FittedFeatures.load(folder / "features")
    longer = with_length(fitted, experiment.max_length + 1)
    names = [feature.name for feature in longer.schema.features]
    arrays: dict[str, list[np.ndarray]] = {}
    for table in DataSplit(folder / "data/train").batches(names):
        for name, ids in longer.apply(table, "context").items():
            arrays.setdefault(f"train/{name}", []).append(ids)
    for split in ("valid", "test"):
        for part in read_histories(
            DataSplit(folder / "data" / split), longer, experiment.data.item, 512
        ):
            for name, x in _named(part, experiment.evaluation.seen == "filtered").items():
                arrays.setdefault(f"{split}/{name}", []).append(x)
    return fitted, {name: _joined(parts) for name, parts in arrays.items()}


def run_of(experiment: SequenceExperiment, fitted: FittedFeatures, users: int) -> dict[str, Any]:
    """Returns what the file of a run has of its experiment.

    Args:
        experiment: The experiment.
        fitted: Its transforms.
        users: Train histories.
    """
    values, training = experiment.model_dump(mode="json"), experiment.training
    options = {key: values["training"][key] for key in TRAINING}
    return {
        "item": experiment.data.item,
        "schema": seen_by_model(experiment, fitted.schema).to_dict(),
        "model": values["model"],
        "objectives": values["objectives"],
        "training": {**options, "batch_size": training.batch_of(users)},
    }


def _named(part: EvaluatedHistories, filter_seen: bool) -> dict[str, np.ndarray]:
    seen = part.seen if filter_seen else part.seen[:, :0]
    return {**part.inputs, "targets": part.targets, "seen": seen}


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """The rows of all parts; those of `seen`, which is as wide as its longest row, filled up."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    width = max(x.shape[1] for x in parts)
    return np.concatenate(
        [np.pad(x, ((0, 0), (0, width - x.shape[1])), constant_values=-1) for x in parts]
    )


def main() -> None:
    """Writes the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with ml-1m.zip")
    parser.add_argument("--folder", type=Path, required=True, help="of the files")
    parser.add_argument("--steps", type=Path, default=Path("runs/next-item-models/ingested"))
    options = parser.parse_args()
    console = Console(width=110)
    options.folder.mkdir(parents=True, exist_ok=True)
    for run in all_runs(options.data, options.steps):
        experiment = experiment_of(run.entry, 0, options.data)
        arrays = f"{run.split}-from-{experiment.data.min_item_events}"
        fitted, ids = sequences(experiment, options.steps / arrays, console)
        rows: dict[str, Any] = ids
        np.savez_compressed(options.folder / f"{arrays}.npz", **rows)
        named = {"name": run.name, "split": run.split, "published": run.entry.published}
        users = len(rows["train/" + experiment.data.item])
        written = {**named, "arrays": arrays, **run_of(experiment, fitted, users)}
        (options.folder / f"{run.file}.json").write_text(json.dumps(written, indent=1), "utf-8")
        console.print(f"written {run.file}: {users:,} users")


if __name__ == "__main__":
    main()
