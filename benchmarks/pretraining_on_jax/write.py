"""Writes the runs of `benchmarks.pretraining` for a machine without TensorFlow.

    python -m benchmarks.pretraining_on_jax.write --data data --folder runs/pretraining-on-jax

For each data set a folder with the rankers, which `benchmarks.boards_on_jax.train` trains, and in
`next` the sequence model, which `benchmarks.sequences_on_jax.train` trains before them, with as
many seeds. All seeds have the rows of the first.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks import pretraining
from benchmarks.boards_on_jax import arrays as names
from benchmarks.boards_on_jax import write as boards
from benchmarks.sequences_on_jax import write as next_items
from benchmarks.shared import command_line
from pipelines.experiment.config import load_experiment
from pipelines.features import FittedFeatures
from pipelines.storage.request_rows import request_starts
from pipelines.training.warm_start import same_ids
from recsys_attn.schema import Schema, is_age

SEED = 2021


def write_set(name: str, shares: list[float], data: Path, folder: Path) -> None:
    """Writes the files of a data set.

    Args:
        name: The data set.
        shares: Shares of the labelled rows.
        data: Folder of the data sets.
        folder: Folder of the files.
    """
    console, steps = Console(width=110), folder / "steps"
    steps.mkdir(parents=True, exist_ok=True)
    base = pretraining.ranker_data(name, SEED, data, steps, console)
    encoder, rows = _sequence_model(name, base, folder, console)
    fitted = FittedFeatures.load(base / "features")
    ranker = load_experiment(base, pretraining.CHANGES)
    request, train = ranker.data.request, pq.read_table(base / "data/train")
    drawn = pretraining.draws(name, train)[request_starts(train, request)[:-1]]
    rows |= {**boards.rows_of(base, fitted, request), names.DRAWS: drawn}
    np.savez_compressed(folder / "rows.npz", **rows)
    for share in shares:
        row_share = float((drawn < share).mean())
        keys = pretraining.CHANGES | pretraining.training_of(ranker, base, row_share)
        experiment = load_experiment(base, keys)
        if unknown := boards.unknown_options(experiment):
            raise SystemExit(f"{name}: the loop on JAX does not know {', '.join(unknown)}.")
        for start, options in pretraining.STARTS.items():
            run = boards.run_of(name, f"{start}, {share:.0%}", experiment, fitted)
            run |= {"share": share, "start": start}
            if options is not None:
                run["encoder"] = {**encoder, **options}
            path = folder / f"{start.replace(' ', '-')}-{share:g}.json"
            path.write_text(json.dumps(run, indent=1), "utf-8")


def _sequence_model(
    name: str, base: Path, folder: Path, console: Console
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Writes the sequence model; returns the rankers' `encoder`, and the rows that are copied."""
    experiment = pretraining.sequence_experiment(name, SEED, base, folder / "steps")
    fitted, ids = next_items.sequences(experiment, folder / "steps/next", console)
    arrays: dict[str, Any] = ids
    (folder / "next").mkdir(exist_ok=True)
    np.savez_compressed(folder / "next/events.npz", **arrays)
    run = next_items.run_of(experiment, fitted, len(arrays[f"train/{experiment.data.item}"]))
    named = {"name": f"{name}, next items", "split": "last", "arrays": "events"}
    written = {**named, **run, "published": None}
    (folder / "next/model.json").write_text(json.dumps(written, indent=1), "utf-8")
    rankers, history = FittedFeatures.load(base / "features"), pretraining.SETS[name].history
    theirs = [s.name for s in Schema.from_dict(run["schema"]).features if not is_age(s)]
    mine = [s.name for s in rankers.schema.histories[history]]
    pairs, rows = list(zip(mine, theirs, strict=True)), dict[str, Any]()
    for sequence, other in pairs:
        new, old = same_ids(fitted.transform_of(other), rankers.transform_of(sequence))
        rows |= {names.of_rows(sequence, "new"): new, names.of_rows(sequence, "old"): old}
    encoder = {"schema": run["schema"], "model": run["model"], "history": history, "pairs": pairs}
    return {**encoder, "weights": "next/found/model.npz"}, rows


def main() -> None:
    """Writes the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    several = partial(command_line.several, parser)
    sets = pretraining.SETS
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--folder", type=Path, required=True, help="of the files")
    several("--sets", ",".join(sets), command_line.one_of(sets), "data sets")
    several("--shares", "0.01,0.1,1", float, "shares of the labelled rows")
    options = parser.parse_args()
    for name in options.sets:
        write_set(name, options.shares, options.data, options.folder / name)


if __name__ == "__main__":
    main()
