"""The scoring service beside a plain gRPC server, and the model alone: speed and latency.

    python benchmarks/serving.py
    python benchmarks/serving.py --models din --candidates 200 --callers 1,16 --output results.json
    python benchmarks/serving.py --quick          # does it run?

Client and servers share one machine and talk over loopback; each server is a process of its own,
and so is the client, whose callers send bytes that were made before and do not read the answers.
Each caller sends its next request when it has the answer to the last. Each size of requests has
a warm-up on all servers, with few callers and with many, in which ours compiles what takes its
time: a request alone has another shape than a batch. In every turn all servers
are called one after the other, so that a noisy machine meets them alike; requests a second and
ratios are medians of the turns (fewer where the last answers of a turn take long), latencies are
of all requests. The processor's time is that of the server's process, beside it the callers'.

- `ours` is `recsys-attn serve`. A request of several candidates is one context with them, sent to
  the signature `rank`; a single one is a row, sent to `serving_default`.
- `plain` (`benchmarks/servers/plain.py`) is a page of Python: gRPC's threads, `tf.make_ndarray`,
  `serving_default` of `tf.saved_model.load`, `tf.make_tensor_proto`. It knows rows alone, so its
  client sends each candidate with the whole context.
- `in process` is the signature of `tf.saved_model.load` that ours computes, and `our runtime` what
  ours computes it with, each called by one thread with arrays that were decoded before: what is
  left of a request without server, network and messages.

The models are untrained (`benchmarks/servers/subjects.py`): AutoInt over 39 strings and numbers,
DIN over a history of 200 strings, and the same with a history that self-attention encodes before
the candidates look at it; 10,000 values of strings each. Nothing is asserted about speed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from benchmarks.servers import tables
from benchmarks.servers.contenders import Contender, running
from benchmarks.servers.load import Load
from benchmarks.servers.processes import Process
from benchmarks.servers.tables import IN_PROCESS, RUNTIME, Cell
from benchmarks.shared import command_line
from benchmarks.shared.command_line import is_yes, one_of
from pipelines.calls.import_tensorflow import set_defaults

MODELS = ("autoint", "din", "din_encoded")
ENOUGH = 10.0  # seconds of a number of callers, after which no other turn begins
WARMING = 16  # callers of the warm-up, at most
LOG = Console(stderr=True, highlight=False)


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/serving.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = partial(command_line.several, parser)
    several("--models", ",".join(MODELS), one_of(MODELS), "which are served")
    several("--candidates", "1,50,200,1000", int, "of a request")
    several("--callers", "1,4,16,64", int, "at the same time")
    several("--batching", "no,yes", is_yes, "whether ours joins requests")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each cell (1.5)")
    parser.add_argument(
        "--warm-up",
        type=float,
        default=5,
        help="seconds before each size of requests, with few callers and with many (5)",
    )
    parser.add_argument("--turns", type=int, default=3, help="that they are spread over (3)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="file for all numbers, as JSON")
    parser.add_argument("--quick", action="store_true", help="little of it: whether it runs")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.candidates, chosen.callers, chosen.turns, chosen.seconds = [1, 200], [1, 16], 1, 0.4
        chosen.warm_up = 0.2
    return chosen


class Benchmark:
    """All cells, and the tables of them."""

    def __init__(self, chosen: argparse.Namespace, folder: Path) -> None:
        self._options = chosen
        self._folder = folder
        self._console = Console(width=180)
        self._loads: dict[Cell, Load] = {}

    def run(self) -> None:
        """Prints the tables, and writes the output as far as it is known."""
        chosen, folder = self._options, self._folder
        LOG.print("Making models and requests.")
        what = {name: getattr(chosen, name) for name in ("models", "candidates", "seed")}
        module = "benchmarks.servers.subjects"
        Process(module, str(folder), json.dumps(what), log=folder / "subjects.log").finish()
        alone = Process("benchmarks.servers.in_process", str(folder), log=folder / "alone.log")
        try:
            with running(folder, chosen.batching) as contenders:
                for model in chosen.models:
                    for candidates in chosen.candidates:
                        self._measure(model, candidates, contenders, alone)
                    self._console.print(tables.measured(model, self._loads), "")
                    self._write()
        finally:
            alone.stop()
        self._console.print(tables.ratios(self._loads), "")

    def _measure(
        self, model: str, candidates: int, contenders: list[Contender], alone: Process
    ) -> None:
        """All servers at all numbers of callers, turn after turn."""
        chosen = self._options
        folder = self._folder / "requests" / model / str(candidates)
        requests = {one.name: one.requests(folder) for one in contenders}
        for one in contenders:
            for request in requests[one.name]:
                one.wait(request)
            for callers in sorted({min(chosen.callers), min(max(chosen.callers), WARMING)}):
                one.turn(requests[one.name], callers, chosen.warm_up)
        for way in (IN_PROCESS, RUNTIME):
            alone.ask([way, model, candidates, chosen.warm_up])
        seconds = chosen.seconds / chosen.turns
        for callers in chosen.callers:
            begin = time.monotonic()
            for _ in range(chosen.turns):
                for one in contenders:
                    load = one.turn(requests[one.name], callers, seconds)
                    self._add(Cell(model, candidates, callers, one.name), load)
                for way in (IN_PROCESS, RUNTIME) if callers == 1 else ():
                    latencies, processor = alone.ask([way, model, candidates, seconds])
                    load = Load([len(latencies) / sum(latencies)], latencies, processor)
                    self._add(Cell(model, candidates, callers, way), load)
                if time.monotonic() - begin > ENOUGH:
                    break

    def _add(self, cell: Cell, load: Load) -> None:
        self._loads.setdefault(cell, Load()).add(load)
        LOG.print(*cell, f"{load.rates[-1]:,.1f} requests/s", markup=False)

    def _write(self) -> None:
        """All numbers so far."""
        chosen = self._options
        if chosen.output is None:
            return
        named = {k: str(v) if isinstance(v, Path) else v for k, v in vars(chosen).items()}
        results = {
            "options": named,
            "machine": {"processors": os.cpu_count(), "platform": platform.platform()},
            "cells": [cell._asdict() | vars(load) for cell, load in self._loads.items()],
        }
        chosen.output.write_text(json.dumps(results, indent=1), encoding="utf-8")


def main() -> None:
    """Prints the tables."""
    begin = time.monotonic()
    set_defaults()  # those of `recsys-attn`, for all servers
    with TemporaryDirectory() as folder:
        Benchmark(options(), Path(folder)).run()
    LOG.print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
