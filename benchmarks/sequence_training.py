"""SASRec's training beside RecTools' own, in turns, on two losses.

    python -m venv .rectools && .rectools/bin/pip install -r benchmarks/peers/rectools.txt
    python -m benchmarks.sequence_training --peer .rectools/bin/python

Both train SASRec (width 64, 2 blocks, 1 head, histories of 200, batches of 128) in float32 with all
processors on the same made log, of the size and the lengths of MovieLens-1M: 6,040 users, 3,416
items, a million events. Each turn is a process of its own; the first epoch of each is left out, as
ours compiles then. The table has medians of the epochs of all turns, and the ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv
from rich.console import Console
from rich.table import Table

from pipelines.calls.import_tensorflow import set_defaults

USERS, ITEMS, EVENTS = 6040, 3416, 1_000_000
PEER = Path(__file__).parent / "peers/rectools_epochs.py"
LOSSES = {"softmax": "softmax", "binary_cross_entropy": "BCE"}  # ours and theirs


def write_events(path: Path) -> None:
    """Writes the log: lengths as those of MovieLens-1M, from 20 events to about 2,000."""
    rng = np.random.default_rng(0)
    lengths = 20 + np.exp(rng.normal(4.35, 1.15, USERS)).astype(int)
    lengths = np.maximum(20, lengths * EVENTS // lengths.sum())
    user = np.repeat(np.arange(USERS), lengths)
    item = np.minimum(np.exp(rng.random(len(user)) * np.log(ITEMS)).astype(int), ITEMS - 1)
    item = (item + rng.integers(0, 200, len(user))) % ITEMS
    table = pa.table({"user": user, "item": item, "time": np.arange(len(user))})
    pq.write_table(table, path)
    csv.write_csv(table, path.with_suffix(".csv"))  # the peer's environment reads no Parquet


def ours(path: Path, loss: str, epochs: int) -> None:
    """Trains by `recsys-attn run`, and prints the seconds of the epochs."""
    from pipelines.common.artifacts import read_json
    from pipelines.pretraining.experiment import SequenceExperiment
    from pipelines.pretraining.sequence_steps import SequenceSteps

    experiment: SequenceExperiment = SequenceExperiment.model_validate(
        {
            "name": "speed",
            "max_length": 200,
            "data": {"path": str(path), "user": "user", "item": "item", "time": "time"},
            "model": {"name": "sasrec", "dropout": 0.1},
            "objectives": ({"name": "next_item", "loss": loss},),
            "training": {"epochs": epochs, "validation_rows": 1},
        }
    )
    with TemporaryDirectory() as folder:
        run = Path(folder)
        steps = SequenceSteps.of(experiment, run, Console(quiet=True), force=False)
        for step in (steps.ingest, steps.fit, steps.train):
            step()
        history = read_json(run / "model/manifest.json")["training"]
    print(json.dumps([epoch["seconds"] for epoch in history]))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peer", type=Path, required=True, help="Python with rectools[torch]")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3, help="epochs of a turn")
    parser.add_argument("--ours", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours:
        ours(Path(options.ours[0]), options.ours[1], options.epochs)
        return
    set_defaults()  # those of `recsys-attn`, for the processes of ours
    table = Table("loss", "ours, s an epoch", "RecTools", "times as fast", box=None)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        write_events(path)
        text = path.with_suffix(".csv")
        for loss, theirs in LOSSES.items():
            seconds: dict[str, list[float]] = {"ours": [], "peer": []}
            for _ in range(options.rounds):
                epochs = str(options.epochs)
                child = [sys.executable, "-m", "benchmarks.sequence_training", "--peer", "-"]
                commands = {
                    "ours": [*child, "--epochs", epochs, "--ours", str(path), loss],
                    "peer": [*map(str, (options.peer, PEER, text)), theirs, epochs],
                }
                for name, command in commands.items():
                    process = subprocess.run(command, check=True, capture_output=True, text=True)
                    seconds[name] += json.loads(process.stdout.splitlines()[-1])[1:]
            mine, peer = (statistics.median(times) for times in seconds.values())
            table.add_row(loss, f"{mine:.1f}", f"{peer:.1f}", f"{peer / mine:.1f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
