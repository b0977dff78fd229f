"""Variants of a model's settings side by side, on the validation rows of small data sets.

    python -m benchmarks.variants --variants benchmarks/ranking_quality/variants.toml
    python -m benchmarks.variants --sets shop,films --seeds 0 --only numbers

A variant is a table of settings by dotted key, as of `--set`; the first is the one that the others
are compared with. Each is trained on the train rows and measured on the validation rows, with the
weights of its best epoch; the test rows are not read. The table has the AUC of each set, the mean
over tasks and seeds, and the mean rank.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
import tomllib
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import keras
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.ranking_quality.small_sets import SMALL
from benchmarks.shared import command_line
from pipelines.common.progress import Progress
from pipelines.experiment.config import load_experiment
from pipelines.features import FittedFeatures
from pipelines.training.train import OutputPaths, TrainingData, train
from pipelines.workflow.steps import Steps

VARIANTS = Path(__file__).parent / "ranking_quality/variants.toml"
_NO_HISTORY = ("avazu", "census", "criteo")
Result = dict[str, Any]


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.variants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = partial(command_line.several, parser)
    several("--sets", ",".join(SMALL), str, "data sets, or folders of runs in --folder")
    several("--seeds", "0,1", int, "seeds of weights and order")
    several("--only", "", str, "names of variants, or none for all")
    parser.add_argument("--variants", type=Path, default=VARIANTS, help="TOML: settings by name")
    parser.add_argument("--folder", type=Path, help="keeps data and results; made where missing")
    return parser.parse_args()


def main() -> None:
    """Trains every variant on every set and prints the table."""
    chosen = options()
    variants = tomllib.loads(chosen.variants.read_text("utf-8"))
    variants = {k: v for k, v in variants.items() if not chosen.only or k in chosen.only}
    with TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        results = [
            _result(folder, name, seed, variant, settings)
            for name in chosen.sets
            for seed in chosen.seeds
            for variant, settings in variants.items()
            if name not in _NO_HISTORY or settings.get("model", {}).get("name") != "din"
        ]
    Console().print(_table(results, list(variants), chosen.sets))


def _result(folder: Path, name: str, seed: int, variant: str, settings: Result) -> Result:
    """The result of one training; read if it is in the folder."""
    key = json.dumps(settings, sort_keys=True)
    log = folder / f"{name}.jsonl"
    for line in log.read_text("utf-8").splitlines() if log.exists() else ():
        known: Result = json.loads(line)
        if known["key"] == key and known["seed"] == seed:
            return known | {"variant": variant}
    run = _prepared(folder, name)
    begin = time.perf_counter()
    epochs = _trained(run, settings, seed, folder / "checkpoints" / str(os.getpid()))
    best = max(epochs, key=lambda epoch: epoch["val_monitored"])
    tasks = [k[4:-4] for k in best if k.startswith("val_") and k.endswith("_auc")]
    result = {
        "set": name, "variant": variant, "seed": seed, "key": key,
        "auc": {task: best[f"val_{task}_auc"] for task in tasks},
        "logloss": {task: best[f"val_{task}_logloss"] for task in tasks},
        "epoch": best["epoch"], "epochs": len(epochs),
        "monitored": [round(epoch["val_monitored"], 4) for epoch in epochs],
        "rows_per_second": round(best["rows_per_second"]),
        "seconds": round(time.perf_counter() - begin, 1),
    }  # fmt: skip
    with log.open("a") as file:
        file.write(json.dumps(result) + "\n")
    auc = mean(result["auc"].values())
    print(name, variant, seed, f"{auc:.4f}", result["monitored"], result["seconds"], flush=True,
          file=sys.stderr)  # fmt: skip
    return result


def _prepared(folder: Path, name: str) -> Path:
    """The run folder of a set, after `ingest` and `fit`."""
    run = folder / name
    if not (run / "features").exists():
        run.mkdir(parents=True, exist_ok=True)
        (run / "experiment.json").write_text(json.dumps(SMALL[name](run)), "utf-8")
        steps = Steps.of(load_experiment(run), run, Console(stderr=True), force=False)
        steps.ingest()
        steps.fit()
    return run


def _trained(run: Path, settings: Result, seed: int, checkpoints: Path) -> list[Result]:
    keras.backend.clear_session()
    experiment = load_experiment(run, {**settings, "seed": seed})
    fitted = FittedFeatures.load(run / "features")
    data = TrainingData(run / "data", experiment.data.request, fitted)
    key = f"{time.time_ns()}"  # no checkpoint of an earlier variant is taken up
    quiet = Progress(Console(file=io.StringIO()))
    return train(experiment, data, OutputPaths(checkpoints, None, key), quiet).history


def _table(results: list[Result], variants: list[str], sets: list[str]) -> Table:
    table = Table(box=None)
    table.add_column("")
    for column in (*sets, "mean rank", "rows/s"):
        table.add_column(column, justify="right")
    aucs: dict[tuple[str, str], list[float]] = {(v, s): [] for v in variants for s in sets}
    for result in results:
        aucs[result["variant"], result["set"]].append(mean(result["auc"].values()))
    means = {v: [mean(aucs[v, s]) if aucs[v, s] else np.nan for s in sets] for v in variants}
    matrix = np.array(list(means.values()))
    ranks = (matrix[None] >= matrix[:, None]).sum(1).mean(1)
    for row, variant in enumerate(variants):
        speed = mean(r["rows_per_second"] for r in results if r["variant"] == variant)
        figures = [f"{value:.4f}" for value in matrix[row]]
        table.add_row(variant, *figures, f"{ranks[row]:.1f}", f"{speed:,.0f}")
    return table


if __name__ == "__main__":
    main()
