"""Trains the models that `benchmarks.boards_on_jax.write` wrote, on JAX: no TensorFlow, one GPU.

    python -m benchmarks.boards_on_jax.train runs/boards-on-jax/frappe --out found --seeds 5

Several models share the GPU, each of them with all seeds at once. Keeps a JSON file of each model,
with the metrics of its epochs, and the scores of the test rows, of which
`benchmarks.boards_on_jax.table` makes the board's table. A model that `--seconds` cut off has the
weights of its best epoch until then, and says so.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared import command_line
from benchmarks.shared.many_seeds import train_all


def one(path: Path, options: argparse.Namespace) -> None:
    """Trains one model and writes its results."""
    import jax

    from benchmarks.boards_on_jax.seeds import Seeds

    run = json.loads(path.read_text("utf-8"))
    if options.epochs is not None:
        run["training"]["epochs"] = options.epochs
    arrays = dict(np.load(path.parent / "rows.npz"))
    chosen = [run["seed"] + place for place in range(options.seeds)]
    begin = time.perf_counter()
    seeds = Seeds(run, arrays, chosen)
    history = seeds.train(options.deadline, lambda epoch: _say(run, epoch))
    if not history:
        return
    tested = seeds.metrics("test")
    found = {
        **run,
        "seeds": chosen,
        "auc": tested,
        "history": history,
        "is_cut": history[-1]["running"] > 0 and len(history) < run["training"]["epochs"],
        "seconds": time.perf_counter() - begin,
        "weights": seeds.weights,
        "device": jax.local_devices()[0].device_kind,
    }
    np.savez_compressed(options.out / f"{path.stem}.npz", **seeds.scores("test"))
    (options.out / path.name).write_text(json.dumps(found), "utf-8")
    said = ", ".join(" ".join(f"{auc:.4f}" for auc in each.values()) for each in tested)
    print(f"{run['board']}, {run['name']}: test AUC {said}, {found['seconds']:.0f} s", flush=True)


def _say(run: dict[str, Any], epoch: dict[str, Any]) -> None:
    numbers = " ".join(f"{value:.4f}" for value in epoch["monitored"])
    seconds = f"{epoch['seconds']:.2f} + {epoch['validation']:.2f} s"
    print(f"{run['name']} epoch {epoch['epoch']}: {numbers}  {seconds}", flush=True)


def main() -> None:
    """Trains all models, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of the board's files")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds (1)")
    command_line.several(parser, "--models", "", str, "their files' names, in this order; all")
    parser.add_argument("--workers", type=int, default=1, help="models at a time (1)")
    parser.add_argument("--epochs", type=int, help="at most; default: those of the board")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no epoch starts")
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)  # of one model alone
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        one(options.run, options)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.models or sorted(path.stem for path in options.folder.glob("*.json"))
    files = [str(options.folder / f"{name}.json") for name in names]
    arguments = [str(options.folder), "--out", str(options.out), "--seeds", str(options.seeds)]
    if options.epochs is not None:
        arguments += ["--epochs", str(options.epochs)]
    module = "benchmarks.boards_on_jax.train"
    train_all(module, files, arguments, options.workers, options.seconds)


if __name__ == "__main__":
    main()
