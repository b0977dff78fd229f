"""What pretraining is worth to a ranking model: AUC with few labelled rows and with all.

    python -m benchmarks.pretraining --data data --seeds 2021,2022,2023
    python -m benchmarks.pretraining --data data --sets trivago --shares 0.1

Ranks by the model of `experiments/` from scratch and with the encoder and the items of SASRec
(`model.encoder_from`), frozen and tuned. Labels are those of a share of the train rows, drawn by a
hash of the user (MovieLens-1M) or the request (trivago); validation and test rows stay whole, and
so do the vocabularies, which need no labels. Batches are smaller and epochs more than in the
experiment's file, so that few rows take enough steps too: the patience is at least four epochs and
128 steps.

The events of pretraining come from the ranker's whole train split alone, so that nothing of its
validation and test rows is seen: for MovieLens-1M each train row is an event, a rating at its time,
and the split is by time; for trivago the events of a session are the longest history of its train
rows, without repetitions, and the split is by user. They hold no label: neither `like` nor a click
of trivago's lists. Targets that stop the pretraining are the last events of the same log.

An interval has 95 % of the clusters of test rows, users or requests, for the mean over the seeds;
that of a difference holds for other seeds too.
Every run keeps its folder, so the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import math
import shutil
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.shared import command_line
from pipelines.boards.influences import Influences
from pipelines.common.artifacts import EXPERIMENT, fingerprint, write_json
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.feed.request_counts import RequestCounts
from pipelines.metrics.intervals import Influence, auc_influence
from pipelines.pretraining.experiment import SequenceExperiment, load_sequence_experiment
from pipelines.pretraining.sequence_steps import SequenceSteps
from pipelines.storage.dataset import DataSplit
from pipelines.storage.hashing import hash_column, uniform
from pipelines.workflow.steps import Steps

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
WIDTH = 16  # of the rankers
SCRATCH = "from scratch"
STARTS: dict[str, dict[str, Any] | None] = {
    SCRATCH: None,
    "frozen": {"train": "frozen"},
    "tuned": {"train": "tuned"},
}
_PATIENCE = 4, 128  # at least so many epochs, and so many steps
# Batches for few rows too, and no audits.
CHANGES: dict[str, Any] = {
    "training.batch_size": None,
    "training.jit_compile": False,
    **{f"evaluation.{part}_rows": 0 for part in ("importance", "attention", "relevance")},
}


class Set(NamedTuple):
    """A data set for a ranking model, and the event log of its sequence model.

    Attributes:
        folder: Folder of its files.
        task: The task that is evaluated.
        unit: Column by which labels are drawn: all rows of a value are labelled, or none.
        history: The history that is encoded.
        user: Column of the log's users or sessions.
        time: Its column of times.
        column: A further column of its events.
        max_length: Events of a history of the sequence model.
        seen: `"ranked"` where a next item may be one of the history, else `"filtered"`.
    """

    folder: str
    task: str
    unit: str
    history: str
    user: str
    time: str
    column: str
    max_length: int
    seen: str


SETS = {
    "movielens-1m": Set(
        folder="movielens-1m",
        task="like",
        unit="user_id",
        history="rated",
        user="user_id",
        time="timestamp",
        column="rating",
        max_length=200,
        seen="filtered",
    ),
    "trivago": Set(
        folder="trivago-recsys19",
        task="click",
        unit="request_id",
        history="acted",
        user="session_id",
        time="place",
        column="acted_types",
        max_length=30,
        seen="ranked",
    ),
}


def ratings(train: pa.Table) -> pa.Table:
    """The log of MovieLens-1M: a train row is an event."""
    return train.select(["user_id", "item_id", "timestamp", "rating"])


def actions(train: pa.Table) -> pa.Table:
    """The log of trivago: the longest history of a session, without the clicks that it ends at.

    An event is the first of consecutive actions on an item: seven of eight actions are on the item
    before, and a model that repeats it has learned nothing of items.
    """
    lengths = pc.list_value_length(train["acted_items"])
    order = pc.sort_indices(
        pa.table({"session": train["session_id"], "length": lengths}),
        sort_keys=[("session", "ascending"), ("length", "descending")],
    )
    first = differs_from_last(train["session_id"].take(order))
    longest = train.take(order.filter(pa.array(first))).combine_chunks()
    parents = pc.list_parent_indices(longest["acted_items"].chunk(0))
    names = {"acted_items": "item_id", "acted_types": "acted_types"}
    flat = {new: pc.list_flatten(longest[old]) for old, new in names.items()}
    session = longest["session_id"].take(parents)
    table = pa.table({"session_id": session, **flat, "place": np.arange(len(parents))})
    starts = [differs_from_last(table[name]) for name in ("session_id", "item_id")]
    return table.filter(pa.array(np.logical_or(*starts)))


def differs_from_last(column: pa.ChunkedArray) -> np.ndarray:
    """Returns which values differ from the one before; the first does."""
    values = column.to_numpy()
    return np.r_[True, values[1:] != values[:-1]]


LOGS = {"movielens-1m": ratings, "trivago": actions}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    several = partial(command_line.several, parser)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    several("--sets", ",".join(SETS), command_line.one_of(SETS), "data sets")
    several("--shares", "0.01,0.1,1", float, "shares of the labelled rows")
    several("--seeds", "2021", int, "seeds of split, weights and order")
    parser.add_argument("--runs", type=Path, default=Path("runs/pretraining"))
    chosen, console = parser.parse_args(), Console(width=110)
    table = new_table()
    for name in chosen.sets:
        for share in chosen.shares:
            by_start: dict[str, dict[int, Influence]] = defaultdict(dict)
            rows: dict[str, dict[int, str]] = defaultdict(dict)
            for seed in chosen.seeds:
                folder = chosen.runs / name / f"seed-{seed}"
                base = prepared(name, seed, chosen.data, folder, console)
                for start, options in STARTS.items():
                    run = labelled(name, base, share, folder / f"share-{share:g}" / start)
                    console.rule(f"{name}, {share:.0%} of the labels, {start}, seed {seed}")
                    by_start[start][seed], rows[start][seed] = ranked(name, run, folder, options)
            add_rows(table, name, share, Influences(by_start, rows))
    console.print(table)


def prepared(name: str, seed: int, data: Path, folder: Path, console: Console) -> Path:
    """Makes the data of the ranker, and the sequence model of its train rows' events."""
    base = ranker_data(name, seed, data, folder, console)
    experiment = sequence_experiment(name, seed, base, folder)
    sequences = SequenceSteps.of(experiment, folder / "next", console, False)
    for step in (sequences.ingest, sequences.fit, sequences.train):
        step()
    return base


def ranker_data(name: str, seed: int, data: Path, folder: Path, console: Console) -> Path:
    """Makes the data and the features of the ranker; returns its run folder."""
    base = folder / "base"
    overrides = {"data.path": str(data / SETS[name].folder), "seed": seed, **CHANGES}
    experiment = load_experiment(EXPERIMENTS / f"{name}.toml", overrides)
    steps = Steps.of(experiment, base, console, force=False)
    steps.ingest()
    steps.fit()
    return base


def sequence_experiment(name: str, seed: int, base: Path, folder: Path) -> SequenceExperiment:
    """Writes the events of the ranker's train rows; returns the experiment of the sequence model.

    Args:
        name: The data set.
        seed: The seed.
        base: Run folder of the ranker.
        folder: Folder for the events, and for the run of the sequence model, `next`.
    """
    of_set, log = SETS[name], folder / "events.parquet"
    events = LOGS[name](pq.read_table(base / "data/train"))
    if not log.exists() or not pq.read_table(log).equals(events):  # ingest looks at its time
        pq.write_table(events, log)
    values = {
        "name": f"{name}-next",
        "seed": seed,
        "max_length": of_set.max_length,
        "inputs": [of_set.column],
        "data": {
            "path": str(log),
            "user": of_set.user,
            "item": "item_id",
            "time": of_set.time,
            "columns": [of_set.column],
        },
        "model": {"name": "sasrec", "width": WIDTH, "dropout": 0.2},
        "objectives": [{"name": "next_item"}],
        "training": {"epochs": 100, "patience": 10},
        "evaluation": {"seen": of_set.seen},
    }
    next_items = folder / "next"
    next_items.mkdir(exist_ok=True)
    write_json(next_items / EXPERIMENT, values)
    return load_sequence_experiment(next_items)


def labelled(name: str, base: Path, share: float, run: Path) -> Path:
    """A copy of the ranker's run folder with a share of the train rows."""
    if not run.exists():
        shutil.copytree(base, run)
        shutil.rmtree(run / "data/train")
        (run / "data/train").mkdir()
        train = pq.read_table(base / "data/train")
        is_labelled = draws(name, train) < share
        pq.write_table(train.filter(pa.array(is_labelled)), run / "data/train/part-00000.parquet")
    return run


def draws(name: str, train: pa.Table) -> np.ndarray:
    """Returns a number from 0 to 1 for each row; those below a share have the share's labels."""
    return uniform(hash_column(train[SETS[name].unit], seed=0))


def ranked(
    name: str, run: Path, folder: Path, options: dict[str, Any] | None
) -> tuple[Influence, str]:
    """Trains and evaluates; returns how far each cluster moves the AUC, and the test rows."""
    # Of the base: the run keeps the changed ones, which must not be changed again.
    overrides = CHANGES | training_of(load_experiment(folder / "base", CHANGES), run)
    if options is not None:
        encoder = {"run": str(folder / "next"), "history": SETS[name].history, **options}
        overrides["model.encoder_from"] = encoder
    steps = Steps.of(load_experiment(run, overrides), run, Console(width=110), force=False)
    steps.train()
    steps.evaluate()
    table, task = pq.read_table(run / "evaluation/predictions.parquet"), SETS[name].task
    label, score = (table[f"{task}/{column}"].to_numpy() for column in ("label", "score"))
    return auc_influence(label, score, table["group"]), fingerprint(label.tolist())


def new_table() -> Table:
    """Returns the empty table."""
    return Table("set", "labels", "start", "AUC", "95 %", "ahead of scratch by", box=None)


def training_of(experiment: Experiment, run: Path, share: float = 1.0) -> dict[str, Any]:
    """Returns the keys of the training that follow from the labelled requests.

    On JAX a patience of a few epochs ends a training of a hundred requests before it has learned
    anything, as does a learning rate that falls after each of its epochs that is no better: over
    the patience it falls as much as with the least one.

    Args:
        experiment: The experiment.
        run: Run folder with its data.
        share: The share of the train requests that is labelled.
    """
    split = DataSplit(run / "data/train")
    requests = share * RequestCounts.read(split, experiment.data.request).requests.sum()
    size = experiment.training.batch_of(round(requests))
    least, steps = _PATIENCE
    patience = max(least, math.ceil(steps * size / requests))
    options = experiment.training
    return {
        "training.batch_size": size,
        "training.epochs": 10 * patience,
        "training.patience": patience,
        "training.reduce_on_plateau": options.reduce_on_plateau ** (least / patience),
    }


def add_rows(table: Table, name: str, share: float, influences: Influences) -> None:
    """Adds the rows of a share of the labels."""
    for start, by_seed in influences.by_model.items():
        low, high = influences.interval(start) or (np.nan, np.nan)
        value = np.mean([influence[0] for influence in by_seed.values()])
        cells = [name, f"{share:.0%}", start, f"{value:.4f}", f"{low:.4f} to {high:.4f}"]
        ahead = influences.difference(start, SCRATCH)
        if ahead is not None:
            cells.append("{:+.4f} ({:+.4f} to {:+.4f})".format(*ahead))
        table.add_row(*cells)


if __name__ == "__main__":
    main()
