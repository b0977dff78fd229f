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

from benchmarks.boards_on_jax.arrays import of_encoder
from benchmarks.shared.many_seeds import say, train_all


def one(path: Path, options: argparse.Namespace) -> None:
    """Trains one model and writes its results."""
    import jax

    from benchmarks.boards_on_jax.seeds import Seeds

    run = json.loads(path.read_text("utf-8"))
    if options.epochs is not None:
        run["training"]["epochs"] = options.epochs
    arrays = dict(np.load(path.parent / "rows.npz"))
    chosen = [run["seed"] + place for place in range(options.seeds)]
    if "encoder" in run:
        arrays |= encoder_weights(path.parent / run["encoder"]["weights"], chosen)
    begin = time.perf_counter()
    seeds = Seeds(run, arrays, chosen)
    history = seeds.train(options.deadline, lambda epoch: say(run["name"], epoch))
    if not history:
        return
    by_seed = seeds.metrics("test")
    results = {
        **run,
        "seeds": chosen,
        "auc": by_seed,
        "history": history,
        "is_cut": history[-1]["running"] > 0 and len(history) < run["training"]["epochs"],
        "seconds": time.perf_counter() - begin,
        "weights": seeds.weights,
        "device": jax.local_devices()[0].device_kind,
    }
    scores: dict[str, Any] = seeds.scores("test")
    np.savez_compressed(options.out / f"{path.stem}.npz", **scores)
    (options.out / path.name).write_text(json.dumps(results), "utf-8")
    text = ", ".join(" ".join(f"{auc:.4f}" for auc in by_task.values()) for by_task in by_seed)
    print(f"{run['board']}, {run['name']}: test AUC {text}, {results['seconds']:.0f} s", flush=True)


def encoder_weights(path: Path, seeds: list[int]) -> dict[str, np.ndarray]:
    """Reads what `benchmarks.sequences_on_jax.train` wrote.

    Args:
        path: The weights.
        seeds: The seeds that they must have.
    """
    known = json.loads(path.with_suffix(".json").read_text("utf-8"))["seeds"]
    if known[: len(seeds)] != seeds:
        raise SystemExit(f"{path}: expected an encoder of the seeds {seeds}. Received: {known}.")
    weights = np.load(path)
    return {of_encoder(int(number)): weights[number] for number in weights.files}


def main() -> None:
    """Trains all models, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds (1)")
    train_all("benchmarks.boards_on_jax.train", parser, one)


if __name__ == "__main__":
    main()
