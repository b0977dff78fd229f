"""Quality, time and memory of mechanisms over long histories whose signal sits far back.

    python -m benchmarks.long_histories                            # eight hours on two cores
    python -m benchmarks.long_histories --events 4096              # on a GPU
    python -m benchmarks.long_histories --data movielens --models transformer,local,performer

Each model encodes the whole history in one block with the mechanism, and candidates attend the
result, as DIN does. Controls: target attention over the last 50 events, over all events without an
encoder, the mean of all events, and a GRU. In the simulated data the last three quarters of the
longest history say nothing of the user. MovieLens-1M (RECSYS_DATA) has each user's whole history.

A run is a process: the table has the means over the seeds of the test AUC, of the seconds of an
epoch, and of the largest memory of the process, data and TensorFlow included. The picture has AUC
against time, and the area of a point is its memory beyond that of the smallest.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import mean, pstdev
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.shared import command_line

_NEAR = 50
_WITH_LENGTH = ("gmlp", "mlp_mixer", "fnet")  # weights of each place
ENCODERS: Mapping[str, Any] = {
    "transformer": "transformer",
    "t5": "t5",
    "local": {"class_name": "local", "config": {"window": 64}},
    "longformer": {"class_name": "longformer", "config": {"window": 64, "tokens": [0]}},
    "bigbird": {"class_name": "bigbird", "config": {"size": 64}},
    "reformer": {"class_name": "reformer", "config": {"size": 64, "buckets": 32, "rounds": 2}},
    "routing_transformer": {
        "class_name": "routing_transformer",
        "config": {"clusters": 16, "window": 64},
    },
    "sinkhorn": {"class_name": "sinkhorn", "config": {"size": 64}},
    "linformer": {"class_name": "linformer", "config": {"rank": 64}},
    "memory_compressed": {"class_name": "memory_compressed", "config": {"stride": 4}},
    "efficient_attention": "efficient_attention",
    "linear_transformer": "linear_transformer",
    "performer": {"class_name": "performer", "config": {"features": 64}},
    "random_feature_attention": "random_feature_attention",
    "gated_linear_attention": "gated_linear_attention",
    "synthesizer": {"class_name": "synthesizer", "config": {"kind": "factorised_random"}},
    **dict.fromkeys(_WITH_LENGTH),
}
# By name: the model, and the number of last events it sees; None for all.
CONTROLS: Mapping[str, tuple[Mapping[str, Any], int | None]] = {
    "last 50": ({"name": "din"}, _NEAR),
    "no encoder": ({"name": "din"}, None),
    "mean": ({"name": "mlp"}, None),
    "gru": ({"name": "din", "encoder": "gru"}, None),
}
_DIN = {"target_attention": "interest", "mlp_units": [64, 32], "activation": "relu"}
_MLP = {"units": [64, 32]}
_CHILD = "import sys; from pipelines.cli.commands import main; main()"


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_histories",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = partial(command_line.several, parser)
    names = [*CONTROLS, *ENCODERS]
    several("--models", ",".join(names), command_line.one_of(names), "mechanisms and controls")
    several("--seeds", "0,1,2", int, "seeds of data, weights and order")
    parser.add_argument("--data", choices=("simulated", "movielens"), default="simulated")
    parser.add_argument("--events", type=int, default=512, help="longest history")
    parser.add_argument("--rows", type=int, default=160_000, help="simulated rows")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--output", type=Path, help="file for all numbers, as JSON")
    parser.add_argument("--picture", type=Path, help="PNG of AUC against time")
    return parser.parse_args()


def main() -> None:
    """Runs every model with every seed and prints a table."""
    chosen, console = options(), Console()
    results: dict[str, list[dict[str, float]]] = {}
    for name in chosen.models:
        with TemporaryDirectory() as folder:
            results[name] = [_run(chosen, name, seed, Path(folder)) for seed in chosen.seeds]
        console.print(f"{name}: {_cells(results[name])}")
        if chosen.output:
            chosen.output.write_text(json.dumps(results, indent=1), "utf-8")
    console.print(_table(chosen, results))
    if chosen.picture:
        _draw(results, chosen.picture)


def _model(name: str, longest: int) -> tuple[dict[str, Any], int | None]:
    model, events = CONTROLS.get(name) or ({"name": "din", "encoder": _block(name, longest)}, None)
    return {**model, **(_MLP if model["name"] == "mlp" else _DIN)}, events


def _block(name: str, longest: int) -> dict[str, Any]:
    """The encoder's block, which starts as no encoder.

    With a plain residual, the norm before attention makes the first output far larger than the
    young embeddings, to which candidates compare it.
    """
    inner = ENCODERS[name]
    if name in _WITH_LENGTH:
        inner = {"class_name": name, "config": {"length": longest}}
    return {"class_name": "block", "config": {"attention": inner, "residual": "rezero"}}


def _experiment(chosen: argparse.Namespace, name: str, seed: int) -> dict[str, Any]:
    model, near = _model(name, chosen.events)
    length = chosen.events if near is None else near
    common = {
        "name": "long",
        "seed": seed,
        "model": {**model, "width": 16},
        "training": {"epochs": chosen.epochs, "patience": 2, "batch_size": 32},
        "evaluation": {"importance_rows": 0, "attention_rows": 0, "relevance_rows": 0},
    }
    if chosen.data == "simulated":
        # Few items and many candidates of a request, so that little data shows what items share.
        simulate = {
            "rows": chosen.rows,
            "candidates": 40,
            "items": 96,
            "history_length": chosen.events,
            "recent": chosen.events - chosen.events // 4,
        }
        features: list[dict[str, Any]] = [
            {"kind": "categorical", "name": "item_id", "dtype": "int64"},
            {"kind": "sequence", "name": "clicked_items", "shares": "item_id"},
        ]
        data: dict[str, Any] = {"source": "simulate", "request": "request_id", "simulate": simulate}
        tasks = [{"name": "click"}]
    else:
        features = [
            {"kind": "categorical", "name": "item_id", "dtype": "int64"},
            {"kind": "sequence", "name": "rated_items", "shares": "item_id"},
            {"kind": "sequence", "name": "rated_values", "dtype": "int64"},
        ]
        history = {"by": "user_id", "time": "timestamp", "max_length": chosen.events}
        data = {
            "source": "movielens-1m",
            "path": f"{os.environ['RECSYS_DATA']}/movielens-1m",
            "histories": [
                {"name": "rated_items", "of": "item_id", **history},
                {"name": "rated_values", "of": "rating", **history},
            ],
        }
        tasks = [{"name": "like"}]
    for feature in features[1:]:
        feature["max_length"] = length
    split = {"by": "time", "valid": 0.1, "test": 0.1}
    return {**common, "features": features, "tasks": tasks, "data": {**data, "split": split}}


def _run(chosen: argparse.Namespace, name: str, seed: int, folder: Path) -> dict[str, float]:
    """Trains and evaluates in a process of its own; returns AUC, seconds and MB."""
    run = folder / str(seed)
    run.mkdir()
    file, log = run / "experiment.json", folder / "log.txt"
    file.write_text(json.dumps(_experiment(chosen, name, seed)), "utf-8")
    memory = 0.0
    for step in ("ingest", "fit", "train", "evaluate"):
        words = [sys.executable, "-c", _CHILD, step, str(run)]
        with log.open("w") as output:
            child = os.posix_spawn(
                sys.executable,
                words,
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), n) for n in (1, 2)],
            )
            _, status, usage = os.wait4(child, 0)
        if status:
            raise SystemExit(f"{' '.join(words)} failed:\n{log.read_text()}")
        if step == "train":
            memory = usage.ru_maxrss / 1e3
    metrics = json.loads((run / "evaluation/metrics.json").read_text("utf-8"))
    rows = metrics["splits"]["train"]
    speed = mean(
        epoch["rows_per_second"] for epoch in metrics["training"][1:] or metrics["training"]
    )
    (task,) = metrics["tasks"].values()
    return {"auc": task["auc"], "seconds": rows / speed, "megabytes": memory}


def _cells(runs: list[dict[str, float]]) -> list[str]:
    auc = [run["auc"] for run in runs]
    return [
        f"{mean(auc):.4f}",
        f"{pstdev(auc):.4f}",
        f"{mean(run['seconds'] for run in runs):,.1f}",
        f"{mean(run['megabytes'] for run in runs):,.0f}",
    ]


def _table(chosen: argparse.Namespace, results: Mapping[str, list[dict[str, float]]]) -> Table:
    seeds = ", ".join(map(str, chosen.seeds))
    title = f"{chosen.data}, histories of up to {chosen.events:,} events, seeds {seeds}"
    table = Table(title=title, box=None, title_justify="left")
    table.add_column("")
    for column in ("test AUC", "deviation", "s an epoch", "MB"):
        table.add_column(column, justify="right")
    for name, runs in results.items():
        table.add_row(name, *_cells(runs))
    return table


def _means(runs: list[dict[str, float]]) -> tuple[float, float, float]:
    auc, seconds, megabytes = (
        mean(run[key] for run in runs) for key in ("auc", "seconds", "megabytes")
    )
    return auc, seconds, megabytes


def _draw(results: Mapping[str, list[dict[str, float]]], path: Path) -> None:
    from matplotlib.figure import Figure  # an extra package, only for the picture
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    points = sorted((*_means(runs), name) for name, runs in results.items())
    least = min(megabytes for _, _, megabytes, _ in points)
    free = points[0][0] - 1  # labels do not overlap
    for auc, seconds, megabytes, name in points:
        axes.scatter(seconds, auc, s=15 + megabytes - least, alpha=0.5, linewidths=0)
        free = max(auc, free + 0.0035)
        place = (seconds * 1.12, free)
        axes.annotate(name.replace("_", " "), (seconds, auc), place, fontsize=8, va="center")
    axes.set(xscale="log", xlabel="seconds of an epoch", ylabel="test AUC")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.12)
    axes.set_title("Area: memory of the training beyond that of the smallest", fontsize=9)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
