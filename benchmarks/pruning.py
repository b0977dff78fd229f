"""Heads pruned by Hard-Concrete gates, by relevance and by confidence, at the same numbers.

    python -m benchmarks.pruning                             # twenty minutes on two cores
    python -m benchmarks.pruning --penalties 0.001,0.02 --output results.json --picture heads.png

One model of 16 heads is trained on the simulated marketplace. For each penalty, the published
protocol of Hard-Concrete gates: a warm start from the trained model with gates on its heads, which
close; they are cut out, and the smaller model is trained on. For each number of heads that this
reaches, the trained model is pruned to as many by relevance and by confidence (`recsys-attn prune
--heads N --by ...`, ranked on the validation rows) and trained on as long. `whole, trained on` had
these epochs too, from a warm start, which keeps the state of the optimizer; that of a pruned model
is new. The epochs with gates come on top of those of the others.

AUC is that of the test rows, with its interval for rows of one user that depend on each other, and
the paired difference to the whole model. Latency is the median of calls with 500 candidates of one
request, of all exports in turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from rich.console import Console
from rich.table import Table

from benchmarks.shared import command_line
from pipelines.common.artifacts import read_json
from pipelines.export.latency import milliseconds, request_call
from pipelines.export.parity import sample_requests
from pipelines.metrics.intervals import auc_difference, auc_interval
from pipelines.storage.dataset import DataSplit
from pipelines.training.load import load_trained

WHOLE, CONTROL, GATES = "whole", "whole, trained on", "hard-concrete"
RANKINGS = ("relevance", "confidence")
PLACES = ("heads of encoders", "heads of target attention", "heads of the interaction")
HEADS = (4, 4, 8)
_ROWS = 500
_TASK = "click"
_CANDIDATE = {"item_id": "int64", "category": "string", "brand": "string"}
_CONTEXT = ("user_id", "segment", "age_group", "device")


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pruning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = partial(command_line.several, parser)
    several("--penalties", "0.0003,0.001,0.002,0.004,0.02", float, "penalties of an open head")
    parser.add_argument("--rows", type=int, default=100_000, help="simulated rows")
    parser.add_argument("--epochs", type=int, default=12, help="of the whole model, at most")
    parser.add_argument("--gate-epochs", type=int, default=5, help="of the model with gates")
    parser.add_argument("--more-epochs", type=int, default=2, help="of the pruned model, at most")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="for the runs, which stay there")
    parser.add_argument("--output", type=Path, help="file for all numbers, as JSON")
    parser.add_argument("--picture", type=Path, help="PNG of AUC against heads")
    return parser.parse_args()


@dataclass(frozen=True)
class Made:
    """A finished run.

    Attributes:
        method: How it was made.
        folder: Its run folder.
        heads: Its heads of encoders, target attention and interaction.
    """

    method: str
    folder: Path
    heads: tuple[int, ...] = HEADS


def main() -> None:
    """Makes all runs and prints one table."""
    chosen, console = options(), Console()
    with TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = _measured(_runs(chosen, folder, console))
    console.print(_table(chosen, results))
    if chosen.output:
        chosen.output.write_text(json.dumps(results, indent=1), "utf-8")
    if chosen.picture:
        _draw(results, chosen.picture)


def _runs(chosen: argparse.Namespace, folder: Path, console: Console) -> list[Made]:
    more = str(chosen.more_epochs)
    whole = _run(folder / "whole", _experiment(chosen))
    start = {"warm_start": str(whole.resolve())}
    training = {**start, "epochs": chosen.more_epochs}
    runs = [
        Made(WHOLE, whole),
        Made(CONTROL, _run(folder / "control", _experiment(chosen, training))),
    ]
    closing = {"epochs": chosen.gate_epochs, "keep": "last", "reduce_on_plateau": 1.0}
    for penalty in chosen.penalties:
        gate = {"class_name": "hard_concrete", "config": {"penalty": penalty, "initial": 1.0}}
        gates = dict.fromkeys(("encoder", "target_attention", "interaction"), gate)
        experiment = _experiment(chosen, {**start, **closing}, gates)
        gated = _run(folder / f"gated-{penalty}", experiment)
        try:
            runs.append(_prune(GATES, gated, folder / f"pruned-{penalty}", "--epochs", more))
        except SystemExit as error:
            if "every gate of the model" not in str(error):
                raise
            console.print(f"penalty {penalty}: no gate closes")
            continue
        console.print(f"penalty {penalty}: heads {runs[-1].heads}")
    for count in sorted({sum(run.heads) for run in runs[2:]}, reverse=True):
        for by in RANKINGS:
            words = ("--heads", str(count), "--by", by, "--epochs", more)
            runs.append(_prune(by, whole, folder / f"{by}-{count}", *words))
            console.print(f"{by}: heads {runs[-1].heads}")
    return runs


def _experiment(
    chosen: argparse.Namespace,
    training: Mapping[str, Any] | None = None,
    gates: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    features: list[dict[str, Any]] = [
        {"kind": "categorical", "name": name, "side": "context"} for name in _CONTEXT
    ]
    features += [
        {"kind": "categorical", "name": name, "dtype": dtype} for name, dtype in _CANDIDATE.items()
    ]
    features += [
        {"kind": "numeric", "name": "price", "transform": ["log1p", "standardise"]},
        {"kind": "sequence", "name": "clicked_items", "shares": "item_id", "max_length": 20},
        {"kind": "sequence", "name": "clicked_categories", "shares": "category", "max_length": 20},
    ]
    return {
        "name": "pruning",
        "seed": chosen.seed,
        "features": features,
        "tasks": [{"name": _TASK}],
        "data": {
            "source": "simulate",
            "request": "request_id",
            "simulate": {"rows": chosen.rows, "users": 1_000, "items": 96},
            "split": {"by": "time", "valid": 0.1, "test": 0.3},
        },
        "model": {
            "name": "attention_ranker",
            "encoder": "transformer",
            "target_attention": {"name": "transformer", "num_heads": 4},
            "interaction": {"num_heads": 4, "head_dim": 8},
            "experts": {"number": 4, "units": [64, 32]},
            **({"gates": gates} if gates else {}),
        },
        "training": {"epochs": chosen.epochs, "learning_rate": 3e-3, **(training or {})},
        "evaluation": {
            "group": "user_id",
            "attention_rows": 0,
            "relevance_rows": 0,
            "importance_rows": 0,
        },
    }


def _run(folder: Path, experiment: Mapping[str, Any]) -> Path:
    """Runs an experiment by the command, as a user does."""
    folder.mkdir(exist_ok=True)
    (folder / "experiment.json").write_text(json.dumps(experiment), "utf-8")
    _command("run", str(folder))
    return folder


def _prune(method: str, run: Path, target: Path, *words: str) -> Made:
    _command("prune", str(run), "--run-dir", str(target), *words)
    counts = read_json(target / "model/manifest.json")["pruned"]["kept"]
    return Made(method, target, tuple(counts[place][0] for place in PLACES))


def _command(*words: str) -> None:
    command = [sys.executable, "-m", "pipelines", *words]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{process.stdout}{process.stderr}")


def _measured(runs: list[Made]) -> list[dict[str, Any]]:
    """AUC, size of the export and time of a call of each run."""
    predictions = [pq.read_table(run.folder / "evaluation/predictions.parquet") for run in runs]
    labels, groups = (predictions[0][name].to_numpy() for name in (f"{_TASK}/label", "group"))
    whole, *_ = scores = [table[f"{_TASK}/score"].to_numpy() for table in predictions]
    exports = [next(run.folder.glob("export/*/1")) for run in runs]
    results = []
    for run, score, export, time in zip(runs, scores, exports, _times(runs, exports), strict=True):
        size = sum(path.stat().st_size for path in export.rglob("*") if path.is_file())
        difference = auc_difference(labels, score, whole, groups)
        results.append(
            {
                "method": run.method,
                "heads": run.heads,
                "auc": auc_interval(labels, score, groups)[:3],
                "difference": None if run.method == WHOLE else difference[:3],
                "weights": read_json(run.folder / "model/manifest.json")["weights"],
                "milliseconds": time,
                "megabytes": size / 1e6,
            }
        )
    return results


def _times(runs: list[Made], exports: list[Path]) -> list[float]:
    run = runs[0].folder
    schema = load_trained(run, ())[0].raw_schema
    request = sample_requests(schema, DataSplit(run / "data/test"), "request_id", 1)[0]
    request = pa.concat_tables([request] * (_ROWS // request.num_rows + 1)).slice(0, _ROWS)
    loaded = [tf.saved_model.load(str(path)) for path in exports]
    request = request.combine_chunks()
    return milliseconds([request_call(model.signatures, schema, request) for model in loaded])


def _table(chosen: argparse.Namespace, results: list[dict[str, Any]]) -> Table:
    title = f"{chosen.rows:,} rows, seed {chosen.seed}"
    table = Table(title=title, box=None, title_justify="left")
    table.add_column("")
    columns = (
        "heads",
        "by place",
        "AUC",
        "95 %",
        "to the whole",
        "95 %",
        f"ms, {_ROWS} rows",
        "MB",
    )
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        value, low, high = result["auc"]
        change = result["difference"]
        table.add_row(
            result["method"],
            str(sum(result["heads"])),
            ", ".join(map(str, result["heads"])),
            f"{value:.4f}",
            f"{low:.4f} to {high:.4f}",
            f"{change[0]:+.4f}" if change else "",
            f"{change[1]:+.4f} to {change[2]:+.4f}" if change else "",
            f"{result['weights']:,}",
            f"{result['milliseconds']:.1f}",
            f"{result['megabytes']:.2f}",
        )
    return table


def _draw(results: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure  # an extra package, only for the picture
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    shift = {GATES: -0.08, RANKINGS[0]: 0.0, RANKINGS[1]: 0.08}  # intervals do not overlap
    for method, marker in zip(shift, "osD", strict=True):
        points = sorted(
            (sum(result["heads"]), *result["difference"])
            for result in results
            if result["method"] == method
        )
        if not points:
            continue
        heads, value, low, high = zip(*points, strict=True)
        below, above = (
            [abs(end - middle) for end, middle in zip(ends, value, strict=True)]
            for ends in (low, high)
        )
        places = [count + shift[method] for count in heads]
        axes.errorbar(places, value, (below, above), marker=marker, capsize=3, label=method)
    control = next(result["difference"][0] for result in results if result["method"] == CONTROL)
    axes.axhline(0, color="black", linewidth=1)
    axes.axhline(control, color="black", linewidth=1, linestyle=":", label=CONTROL)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel=f"heads, of {sum(HEADS)}", ylabel="test AUC minus that of the whole model")
    axes.legend(fontsize=9)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
