"""The default model beside others, with the default training, on several data sets.

    python -m benchmarks.quality                        # all sets, three seeds: about two hours
    python -m benchmarks.quality --sets trivago --seeds 0 --output results.json

Each set has features, tasks and a split (`benchmarks/ranking_quality/sets.py`); model and training
are left at their defaults. DIN is left out where rows have no history. Trees are those
that each run fits beside its model (`pipelines/baselines`), with LightGBM, on all rows: on the same
features, and with the rate of positives by each value of each feature, from earlier rows only.

The tables have means over the seeds of metrics on the test rows. An interval has 95 % of 200 draws
of whole groups (users or requests; rows where there are none); `flagship ahead by` is the interval
of the difference of its AUC and the model's, in the same draws. The sets on real data need
RECSYS_DATA.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.ranking_quality.intervals import Predictions, draws, interval
from benchmarks.ranking_quality.sets import SETS
from benchmarks.ranking_quality.trees import TreeData
from benchmarks.shared import command_line
from pipelines.experiment.config import load_experiment
from pipelines.metrics import gauc

FLAGSHIP = "attention_ranker"
MODELS = (FLAGSHIP, "logistic_regression", "mlp", "din")
TREES = {"trees": False, "trees, encodings": True}
Found = dict[str, dict[str, list[Predictions]]]  # task -> model -> one for each seed


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = partial(command_line.several, parser)
    several("--sets", ",".join(SETS), command_line.one_of(SETS), "data sets")
    several("--models", ",".join(MODELS), str, "models of this project")
    several("--seeds", "0,1,2", int, "seeds of split, weights and order")
    parser.add_argument("--trees", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE for every run")
    parser.add_argument("--output", type=Path, help="file for all numbers, as JSON")
    return parser.parse_args()


def main() -> None:
    """Runs every model on every set and prints a table for each task."""
    chosen, console, results = options(), Console(), {}
    for name in chosen.sets:
        with TemporaryDirectory() as folder:
            by_task = _run(name, Path(folder), chosen)
        results[name] = {task: _summary(models) for task, models in by_task.items()}
        for task, models in results[name].items():
            console.print(_table(f"{name}: {task}", models))
        if chosen.output:
            chosen.output.write_text(json.dumps(results, indent=1), "utf-8")


def _run(name: str, folder: Path, chosen: argparse.Namespace) -> Found:
    """The predictions of every model and seed for the test rows of a set."""
    make, time = SETS[name]
    settings = make(folder)
    has_history = any(feature["kind"] == "sequence" for feature in settings["features"])
    names = [model for model in chosen.models if has_history or model != "din"]
    by_task: Found = {task["name"]: {} for task in settings["tasks"]}
    for seed in chosen.seeds:
        runs = [folder / f"{model}-{seed}" for model in names]
        for model, run in zip(names, runs, strict=True):
            _train({**settings, "seed": seed, "model": {"name": model}}, run, chosen.set)
            for task, models in by_task.items():
                models.setdefault(model, []).append(_predictions(run, task))
        if chosen.trees:
            data = TreeData(load_experiment(runs[0]), runs[0], time)
            for task, models in by_task.items():
                known = models[names[0]][-1]
                for label, encoded in TREES.items():
                    scores = data.scores(task, encoded, seed)[known.rows]
                    models.setdefault(label, []).append(replace(known, score=scores))
    return by_task


def _train(settings: dict[str, Any], run: Path, more: list[str]) -> None:
    """Runs an experiment by the command, as a user does."""
    run.mkdir()
    (run / "experiment.json").write_text(json.dumps(settings), "utf-8")
    words = [sys.executable, "-m", "pipelines", "run", str(run)]
    for option in more:
        words += ["--set", option]
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{process.stdout}{process.stderr}")


def _predictions(run: Path, task: str) -> Predictions:
    table = pq.read_table(run / "evaluation/predictions.parquet")
    label = table[f"{task}/label"].to_numpy()
    alone = "group" not in table.column_names  # each row is a group
    values = range(len(label)) if alone else table["group"].to_pylist()
    group = np.unique(values, return_inverse=True)[1]
    rows = np.flatnonzero(~np.isnan(label))
    return Predictions(label[rows], table[f"{task}/score"].to_numpy()[rows], group[rows], rows)


def _summary(models: dict[str, list[Predictions]]) -> dict[str, dict[str, Any]]:
    """Means over the seeds, and intervals of the AUC and of its distance to the flagship's."""
    summary = {}
    drawn = {name: _drawn(runs) for name, runs in models.items()}
    for name, runs in models.items():
        whole = [np.ones(len(run.label)) for run in runs]
        summary[name] = {
            "AUC": mean(run.auc(rows) for run, rows in zip(runs, whole, strict=True)),
            "interval": interval(drawn[name]),
            "flagship ahead by": interval(drawn[FLAGSHIP] - drawn[name]),
            "GAUC": mean(gauc(run.label, run.score, run.group)[0] for run in runs),
            "logloss": mean(run.logloss(rows) for run, rows in zip(runs, whole, strict=True)),
            "predicted / observed": mean(run.calibration for run in runs),
        }
    return summary


def _drawn(runs: list[Predictions]) -> np.ndarray:
    """AUC of each draw of groups, the mean over the seeds."""
    return np.mean([[run.auc(rows) for rows in draws(run.group)] for run in runs], axis=0)


def _table(title: str, models: dict[str, dict[str, Any]]) -> Table:
    table = Table(title=title, box=None, title_justify="left")
    table.add_column("")
    for column in ("AUC", "95 %", "flagship ahead by", "GAUC", "logloss", "predicted / observed"):
        table.add_column(column, justify="right")
    for name, figures in models.items():
        low, high = figures["interval"]
        least, most = figures["flagship ahead by"]
        table.add_row(
            name,
            f"{figures['AUC']:.4f}",
            f"{low:.3f} to {high:.3f}",
            "" if name == FLAGSHIP else f"{least:+.4f} to {most:+.4f}",
            "" if np.isnan(figures["GAUC"]) else f"{figures['GAUC']:.4f}",
            f"{figures['logloss']:.4f}",
            f"{figures['predicted / observed']:.3f}",
        )
    return table


if __name__ == "__main__":
    main()
