"""Trains the runs that `benchmarks.sequences_on_jax.write` wrote, on JAX: no TensorFlow, one GPU.

    python -m benchmarks.sequences_on_jax.train runs/on-jax --out runs/on-jax/found --workers 4

Several runs share the GPU, each of them with all seeds at once. Prints a table at the end and keeps
a JSON file and the weights of each run; a run that `--seconds` cut off has those of its best epoch
until then, and a star.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.shared import command_line
from benchmarks.shared.many_seeds import say, train_all


def one(path: Path, options: argparse.Namespace) -> None:
    """Trains one run and writes its results."""
    import jax

    from benchmarks.sequences_on_jax.seeds import Seeds

    run = json.loads(path.read_text("utf-8"))
    if options.epochs is not None:
        run["training"]["epochs"] = options.epochs
    arrays = dict(np.load(path.parent / f"{run['arrays']}.npz"))
    begin = time.perf_counter()
    seeds = Seeds(run, arrays, options.seeds)
    history = seeds.train(options.deadline, lambda epoch: say(path.stem, epoch))
    if not history:
        return
    by_seed = seeds.metrics(seeds.state, seeds.test)
    device = jax.local_devices()[0]
    results = {
        **run,
        "seeds": options.seeds,
        "metrics": [metrics.metrics() for metrics in by_seed],
        "intervals": [metrics.intervals() for metrics in by_seed],
        "history": history,
        "is_cut": history[-1]["running"] > 0 and len(history) < run["training"]["epochs"],
        "seconds": time.perf_counter() - begin,
        "weights": seeds.weights,
        "device": device.device_kind,
        "peak_bytes": (device.memory_stats() or {}).get("peak_bytes_in_use"),
    }
    trained = enumerate(seeds.state.trained)
    weights: dict[str, Any] = {str(place): np.asarray(x) for place, x in trained}
    np.savez(options.out / f"{path.stem}.npz", **weights)
    (options.out / path.name).write_text(json.dumps(results), "utf-8")


def table(out: Path) -> Table:
    """The table of all results: means over the seeds, and the interval of the first seed.

    Seconds are those of the epochs without validation, the first with the compiling; GB is the
    peak of the GPU.
    """
    columns = ("split", "HR@10", "NDCG@10", "seeds", "interval", "published", "best epochs")
    rows = Table("", *columns, "s", "GB", "weights", box=None)
    for path in sorted(out.glob("*.json")):
        run = json.loads(path.read_text("utf-8"))
        hr, ndcg = ([of_seed[m] for of_seed in run["metrics"]] for m in ("hr@10", "ndcg@10"))
        low, high = run["intervals"][0]["ndcg@10"]
        published = run["published"]
        rows.add_row(
            run["name"] + "*" * run["is_cut"],
            run["split"],
            f"{statistics.mean(hr):.4f}",
            f"{statistics.mean(ndcg):.4f}",
            f"{min(ndcg):.4f} to {max(ndcg):.4f}",
            f"{low:.4f} to {high:.4f}",
            "{:.4f} / {:.4f}".format(*published) if published else "",
            ", ".join(map(str, run["history"][-1]["best"])),
            f"{sum(epoch['seconds'] for epoch in run['history']):.0f}",
            f"{run['peak_bytes'] / 1e9:.1f}" if run["peak_bytes"] else "",
            f"{run['weights']:,}",
        )
    return rows


def main() -> None:
    """Trains all runs, or those that are named, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    command_line.several(parser, "--seeds", "2021,2022,2023", int, "seeds of each run")
    options = train_all("benchmarks.sequences_on_jax.train", parser, one)
    Console(width=150).print(table(options.out))


if __name__ == "__main__":
    main()
