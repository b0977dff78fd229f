"""The scoring service and a plain gRPC server under more load than they can bear.

    python benchmarks/overload.py
    python benchmarks/overload.py --candidates 200 --loads 1,4 --batching no --seconds 5

Requests come at random times (Poisson), whether or not the last ones are answered, and each client
waits for the deadline. The capacity of a server is what 16 callers get from it, who each send the
next request when they have the answer to the last. A load of 2 is twice the capacity. Goodput is
what is answered within the deadline, as a share of the capacity.

Server and generator share one machine. The generator is a process of its own, and the capacity is
counted for the processor time that it leaves: with `g` seconds of its processor time in a second,
on `c` cores, the server has the share `1 - g / c` of them. In every turn all servers are
called one after the other. `answer` is the server's processor time of a request at the capacity,
and `refusal` the time of each that was not answered, at the highest load: what is left of the
server's time without the answers'.

Servers, models and requests are those of `benchmarks/serving.py`: `ours` is `recsys-attn serve`
without any option, `ours, batching` has `--enable-batching` and no other. The plain server scores
each candidate as a row with the whole context, and its loads are multiples of its own capacity.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.servers.contenders import Contender, running
from benchmarks.servers.processes import Process
from benchmarks.shared import command_line
from benchmarks.shared.command_line import is_yes
from pipelines.calls.import_tensorflow import set_defaults

CALLERS = 16
CORES = os.cpu_count() or 1
LOG = Console(stderr=True, highlight=False)


class Cell(NamedTuple):
    """The key of one measurement; a load of 0 is the one of the capacity."""

    candidates: int
    contender: str
    load: float


@dataclass
class Seen:
    """What came of the requests of a cell, turn by turn.

    Attributes:
        codes: How many ended with each code.
        rates: Answers a second in time, for the processor time that the generator leaves.
        server: Seconds of the server's processor.
    """

    codes: Counter[str] = field(default_factory=Counter)
    rates: list[float] = field(default_factory=list)
    server: float = 0.0

    def add(self, window: Mapping[str, Any]) -> float:
        """Takes the numbers of a turn; returns its rate."""
        self.codes.update(window["codes"])
        seconds = window["seconds"] - window["own"] / CORES
        self.rates.append(window["codes"].get("OK", 0) / seconds)
        self.server += window["server"]
        return self.rates[-1]


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/overload.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = partial(command_line.several, parser)
    several("--candidates", "1,200", int, "of a request")
    several("--loads", "0.5,1,2,4", float, "as multiples of the capacity")
    several("--batching", "no,yes", is_yes, "whether ours joins requests")
    parser.add_argument("--model", default="din", help="that is served (din)")
    parser.add_argument("--deadline", type=float, default=0.5, help="seconds of each client (0.5)")
    parser.add_argument("--seconds", type=float, default=10, help="of each cell and turn (10)")
    parser.add_argument("--warm-up", type=float, default=8, help="seconds of each size (8)")
    parser.add_argument("--turns", type=int, default=2, help="how often each is measured (2)")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class Benchmark:
    """All cells, and the table of them."""

    def __init__(self, chosen: argparse.Namespace, folder: Path) -> None:
        self._chosen = chosen
        self._folder = folder
        self._seen: dict[Cell, Seen] = {}

    def run(self) -> None:
        """Prints the table."""
        chosen, folder = self._chosen, self._folder
        what = {"models": [chosen.model], "candidates": chosen.candidates, "seed": chosen.seed}
        module = "benchmarks.servers.subjects"
        Process(module, str(folder), json.dumps(what), log=folder / "subjects.log").finish()
        with running(folder, chosen.batching) as contenders:
            for candidates in chosen.candidates:
                requests = folder / "requests" / chosen.model / str(candidates)
                for turn in range(chosen.turns):
                    for one in contenders:
                        self._turn(turn, candidates, one, requests)
        Console(width=120).print(table(self._seen))

    def _turn(self, turn: int, candidates: int, contender: Contender, requests: Path) -> None:
        """The capacity of a server, and all loads."""
        chosen = self._chosen
        for request in contender.requests(requests) if turn == 0 else ():
            contender.wait(request)
        generator = Process(
            "benchmarks.servers.open_loop",
            contender.address,
            str(requests),
            contender.way,
            log=self._folder / "open_loop.log",
        )
        options = {"server": contender.process.pid, "seconds": chosen.seconds}
        try:
            for callers in (1, CALLERS) if turn == 0 else ():
                generator.ask({**options, "callers": callers, "seconds": chosen.warm_up / 2})
            counts = generator.ask({**options, "callers": CALLERS})
            self._note(Cell(candidates, contender.name, 0), counts)
            capacity = counts["codes"]["OK"] / counts["seconds"]
            for load in chosen.loads:
                rate, seed = load * capacity, chosen.seed + turn
                counts = generator.ask(
                    {**options, "rate": rate, "deadline": chosen.deadline, "seed": seed}
                )
                self._note(Cell(candidates, contender.name, load), counts)
        finally:
            generator.stop()

    def _note(self, cell: Cell, counts: Mapping[str, Any]) -> None:
        rate = self._seen.setdefault(cell, Seen()).add(counts)
        LOG.print(*cell, f"{rate:,.1f} answers/s in time", counts, markup=False)


def table(seen: Mapping[Cell, Seen]) -> Table:
    """Goodput by server and load, and the processor time of answers and refusals."""
    loads = sorted({cell.load for cell in seen} - {0})
    goodput = Table(title="Answered in time, as a share of the capacity", box=None)
    for name in ("candidates", "", "capacity/s", *(f"{load:g} x" for load in loads)):
        goodput.add_column(name, justify="right" if name else "left")
    for name in ("answer ms", "refusal ms", "refusal : answer"):
        goodput.add_column(name, justify="right")
    for cell, most in seen.items():
        if cell.load:
            continue
        of_load = [seen[cell._replace(load=load)] for load in loads]
        answer = most.server / most.codes["OK"]
        refusal = refusal_seconds(of_load[-1], answer)
        goodput.add_row(
            f"{cell.candidates:,}",
            cell.contender,
            f"{median(most.rates):,.1f}",
            *(f"{share(one, most):.2f}" for one in of_load),
            f"{1e3 * answer:.2f}",
            f"{1e3 * refusal:.2f}",
            f"{refusal / answer:.3f}",
        )
    return goodput


def share(one: Seen, most: Seen) -> float:
    """Goodput as a share of the capacity, in the median of the turns."""
    return median(rate / capacity for rate, capacity in zip(one.rates, most.rates, strict=True))


def refusal_seconds(seen: Seen, answer: float) -> float:
    """Processor seconds of each request that was not answered, if an answer costs so many."""
    failed = seen.codes.total() - seen.codes["OK"]
    return (seen.server - seen.codes["OK"] * answer) / failed if failed else float("nan")


def main() -> None:
    """Prints the table."""
    set_defaults()  # those of `recsys-attn`, for all servers
    with TemporaryDirectory() as folder:
        Benchmark(options(), Path(folder)).run()


if __name__ == "__main__":
    main()
