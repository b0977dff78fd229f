"""Training beside the peers: rows a second, AUC, memory and the share of the machine's peak.

    python -m benchmarks.training --install        # first: makes the peers' environment
    python -m benchmarks.training --models autoint,din --vocabulary 10000 --output results.json
    python -m benchmarks.training --quick          # does it run?

Each model is trained by each contender on the same made data, the same batches in the same order,
with Adam at the same rate and all processors, each in a process of its own. In every round all
contenders of a model take turns, ours and a peer's, each at all vocabularies, so that a noisy
machine meets them alike; the tables have medians. A step is timed from the arrays of a batch to
its loss on the host; only "from Parquet" are rows decoded meanwhile, and its speed is that of all
steps together.

- The peers are FuxiCTR's layers in an eager PyTorch loop, DeepCTR-Torch's and torch-rechub's
  models (`benchmarks/peers/torch_loop.py` says what differs), as they are: float32, dense Adam.
- The peak is that of the fastest product of two square matrices that TensorFlow, JAX or PyTorch
  make here, and a row's work its matrix products (`flops` of `benchmarks/peers/operations.py`).
- Where a framework's products in bfloat16 would take seconds each, as PyTorch's on a processor
  without such instructions, its peak and its contenders in bfloat16 are skipped; the table says so.
- The AUC is that of the held-out rows after `--auc-steps` steps.
- Without TensorFlow, ours run on JAX. A GPU is used if the frameworks find one.

`--peers` is a virtual environment, or the Python of any that has the peers. Without it ours run
alone. Nothing is asserted about speed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from benchmarks.peers import contenders, tables
from benchmarks.peers.contender import best_auc
from benchmarks.peers.data import TEST_ROWS, save
from benchmarks.peers.environment import install, python_of
from benchmarks.peers.settings import BATCHES, WITH_HISTORY, Settings
from benchmarks.shared import command_line
from benchmarks.shared.command_line import is_yes, one_of
from pipelines.calls.import_tensorflow import set_defaults

REQUESTS = 128  # of the batches of the benchmark of requests
LOG = Console(stderr=True, highlight=False)


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = partial(command_line.several, parser)
    several("--models", ",".join(BATCHES), one_of(BATCHES), f"of {', '.join(BATCHES)}")
    several("--vocabulary", "10000,1000000,10000000", int, "rows of all tables together")
    several("--precision", "float32,mixed_bfloat16", str, "of ours and of FuxiCTR's layers")
    several("--ours", ",".join(contenders.ways_of_ours()), one_of(contenders.OURS), "ways of ours")
    several("--compiled", "no", is_yes, "whether XLA compiles our tower")
    several(
        "--micro-batch-size", "default", _rows, "rows that our tower computes at a time, 0 for all"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of a round (20)")
    parser.add_argument("--warm-up", type=int, default=3, help="steps before them (3)")
    parser.add_argument(
        "--auc-steps", type=int, default=200, help="steps to the AUC; 0: none (200)"
    )
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--peers", type=Path, default=Path(".peers"))
    parser.add_argument("--install", action="store_true", help="make the peers' environment")
    parser.add_argument("--output", type=Path, help="file for all numbers, as JSON")
    parser.add_argument("--quick", action="store_true", help="tiny: whether it runs")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.vocabulary, chosen.rounds, chosen.warm_up, chosen.steps = [10_000], 1, 1, 3
        chosen.auc_steps = min(chosen.auc_steps, 6)
    return chosen


def _rows(word: str) -> int | None:
    return None if word == "default" else int(word)


class Benchmark:
    """All runs, and the tables as they come to be known."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self._options = chosen
        self._console = Console(width=180)
        self._python = python_of(chosen.peers)
        self._peak = {"float32": 0.0, "bfloat16": 0.0}
        self._slow: set[str] = set()  # frameworks that bfloat16 is skipped with
        self._runs: list[dict[str, Any]] = []
        self._requests: list[dict[str, Any]] = []

    def run(self) -> None:
        """Prints the tables, and writes the output as far as it is known."""
        for has_history in (False, True):
            models = [m for m in self._options.models if (m in WITH_HISTORY) == has_history]
            if models:
                with TemporaryDirectory() as folder:
                    self._with_data(models, folder)

    def _with_data(self, models: list[str], folder: str) -> None:
        chosen = self._options
        steps = max(chosen.warm_up + chosen.steps, chosen.auc_steps)
        all_sizes = {
            model: [self._settings(model, v, f"{folder}/{v}") for v in chosen.vocabulary]
            for model in models
        }
        rows = steps * max(sizes[0].batch for sizes in all_sizes.values())
        for settings in all_sizes[models[0]]:
            save(settings, rows, 5000 if chosen.quick else TEST_ROWS)
        for sizes in all_sizes.values():
            self._find_peak()
            self._compare(sizes)
            self._show(sizes)
            self._write()
        if "din" in models:
            self._in_requests(all_sizes["din"][0])
            self._console.print(tables.requests(self._requests), "")
            self._write()

    def _show(self, sizes: list[Settings]) -> None:
        """A table for each vocabulary, and one that compares them."""
        model = sizes[0].model
        records = [run for run in self._runs if run["model"] == model]
        for settings in sizes:
            of_size = [r for r in records if r["vocabulary"] == settings.vocabulary]
            table = tables.speeds(model, settings.vocabulary, of_size, self._peak)
            best = f"AUC of the model that made the labels: {best_auc(settings):.4f}"
            table.caption = f"{best}. {tables.peaks(self._peak)}{self._skipped()}"
            self._console.print(table, "")
        if len(sizes) > 1:
            self._console.print(tables.vocabularies(model, records), "")

    def _settings(self, model: str, vocabulary: int, folder: str) -> Settings:
        chosen = self._options
        return Settings(
            model,
            vocabulary,
            256 if chosen.quick else BATCHES[model],
            folder,
            chosen.warm_up,
            chosen.steps,
            learning_rate=chosen.learning_rate,
        )

    def _compare(self, sizes: list[Settings]) -> None:
        """All contenders and vocabularies in turns, round after round; the AUC is of the first."""
        chosen = self._options
        entries = contenders.in_turns(
            contenders.ours(
                chosen.ours, chosen.precision, chosen.compiled, chosen.micro_batch_size
            ),
            contenders.peers(sizes[0].model, self._python, chosen.precision),
        )
        for round_, entry, settings in product(range(chosen.rounds), entries, sizes):
            steps = chosen.auc_steps if round_ == 0 else 0
            results = self._run(entry, replace(settings, auc_steps=steps))
            self._runs.append(
                {
                    "model": settings.model,
                    "vocabulary": settings.vocabulary,
                    "batch": settings.batch,
                    "contender": entry.name,
                    "precision": entry.precision,
                    "round": round_,
                    **results,
                }
            )
            _log(settings, entry, results)

    def _in_requests(self, settings: Settings) -> None:
        """Requests beside the same rows one by one, in ours alone."""
        chosen = self._options
        ways = [way for way in chosen.ours if way != "parquet"][:1]
        for entry in contenders.ours(ways, chosen.precision, [False], [None]) * chosen.rounds:
            for model in ("din", "din_encoded"):
                in_requests = replace(settings, model=model, batch=4 if chosen.quick else REQUESTS)
                results = self._run(replace(entry, module="ours_in_requests"), in_requests)
                self._requests.append({"model": model, "precision": entry.precision, **results})
                _log(in_requests, entry, results)

    def _run(self, entry: contenders.Entry, settings: Settings) -> dict[str, Any]:
        """What the contender printed, unless its framework has no quick products for it."""
        if entry.precision == contenders.LOW and entry.framework in self._slow:
            return {"skipped": f"{entry.framework}'s products in bfloat16 take seconds here"}
        return entry.run(settings)

    def _skipped(self) -> str:
        names = " and ".join(sorted(self._slow))
        return f". Skipped in bfloat16, too slow on this processor: {names}" if names else ""

    def _find_peak(self) -> None:
        """Operations a second of the fastest framework so far, by precision."""
        ways = ("tensorflow" if way == "parquet" else way for way in self._options.ours)
        pythons = dict.fromkeys(ways, sys.executable)
        if self._python:
            pythons["torch"] = str(self._python)
        by_framework = {
            name: contenders.run("peak", name, python) for name, python in pythons.items()
        }
        LOG.print("Operations a second:", json.dumps(by_framework))
        measured = {name: peaks for name, peaks in by_framework.items() if "error" not in peaks}
        self._slow = {name for name, peaks in measured.items() if peaks["bfloat16"] is None}
        all_peaks = [self._peak, *measured.values()]
        self._peak = {kind: max(peaks[kind] or 0.0 for peaks in all_peaks) for kind in self._peak}

    def _write(self) -> None:
        """All numbers so far."""
        if self._options.output is None:
            return
        named = {k: str(v) if isinstance(v, Path) else v for k, v in vars(self._options).items()}
        machine = {"processors": os.cpu_count(), "platform": platform.platform()}
        results = {
            "options": named,
            "machine": machine,
            "peak": self._peak,
            "runs": self._runs,
            "requests": self._requests,
        }
        self._options.output.write_text(json.dumps(results, indent=1), encoding="utf-8")


def _log(settings: Settings, entry: contenders.Entry, results: dict[str, Any]) -> None:
    what = (
        results.get("error")
        or results.get("skipped")
        or {k: round(v, 4) for k, v in results.items() if v is not None}
    )
    name = f"{settings.model} {settings.vocabulary:,}: {entry.name} {entry.precision}"
    LOG.print(name, what, markup=False)


def main() -> None:
    """Prints the tables."""
    chosen = options()
    set_defaults()  # those of `recsys-attn`
    if chosen.install:
        install(chosen.peers)
    if python_of(chosen.peers) is None:
        LOG.print(f"No peers in {chosen.peers}: ours run alone. `--install` makes the environment.")
    Benchmark(chosen).run()


if __name__ == "__main__":
    main()
