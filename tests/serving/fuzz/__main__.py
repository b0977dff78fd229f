"""`python -m tests.serving.fuzz --requests 200000 --seed 0`: the long run.

Exits with 1 where anything was wrong. A request that was answered wrongly is printed, and sent
again by `--seed SEED --replay NUMBER`.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Column, Table

from tests.serving.exports import write_model
from tests.serving.fuzz.generate import make_case
from tests.serving.fuzz.process import TOKEN, ServerProcess, install_models, start_server
from tests.serving.fuzz.run import Run, Seen

_WITH_TOKENS = 0.02  # share of the requests that a server with tokens gets
_MOST_SHOWN = 20  # violations


@click.command()
@click.option("--requests", default=200_000, show_default=True, help="How many are sent.")
@click.option("--seed", default=0, show_default=True, help="Which ones.")
@click.option("--good-limit", default=10.0, show_default=True, help="Seconds for a good request.")
@click.option("--replay", type=int, help="Sends the request of this number alone.")
def main(requests: int, seed: int, good_limit: float, replay: int | None) -> None:
    """Send malformed requests to a server, and good ones beside them."""
    console = Console()
    numbers = range(requests) if replay is None else range(replay, replay + 1)
    split = round(len(numbers) * (1 - _WITH_TOKENS))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        base_path = install_models(write_model(folder / "export", 2.0), folder / "models")
        if replay is not None:
            console.print(str(make_case(seed, replay, str(base_path))), markup=False)
        wrong = 0
        for name, token, part in (
            ("open", "", numbers[:split]),
            ("tokens", TOKEN, numbers[split:]),
        ):
            if part:
                with start_server(base_path, folder / name, token) as server:
                    wrong += _run(console, server, str(base_path), seed, part, good_limit)
    sys.exit(1 if wrong else 0)


def _run(
    console: Console,
    server: ServerProcess,
    base_path: str,
    seed: int,
    numbers: range,
    good_limit: float,
) -> int:
    """Sends requests to a server, and prints what was seen; returns what was wrong."""
    before = server.megabytes()
    columns = (*Progress.get_default_columns()[:3], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("with tokens" if server.token else "requests", total=len(numbers))
        seen = Run(server, base_path, seed, lambda: progress.advance(task))(numbers, good_limit)
    console.print(_table(seen))
    memory = ", ".join(f"{size:.0f}" for size in (before, *seen.megabytes))
    console.print(f"Memory of the server: {memory} MB")
    if seen.good:
        half, most = np.percentile(seen.good, [50, 99])
        console.print(
            f"Good requests: {len(seen.good)} answered rightly; 50 % within {1e3 * half:.0f} ms, "
            f"99 % within {1e3 * most:.0f} ms, the slowest in {1e3 * max(seen.good):.0f} ms"
        )
    console.print(f"Violations: {len(seen.violations)}")
    for text in seen.violations[:_MOST_SHOWN]:
        console.print(f"- --seed {seed}: {text}", markup=False, soft_wrap=True)
    return len(seen.violations)


def _table(seen: Seen) -> Table:
    table = Table("what was done", Column("requests", justify="right"), "how it was answered")
    kinds = sorted({kind for kind, _ in seen.counts})
    for kind in kinds:
        table.add_row(kind, *_counted({c: n for (k, c), n in seen.counts.items() if k == kind}))
    totals: Counter[str] = Counter()
    for (_, code), count in seen.counts.items():
        totals[code] += count
    table.add_section()
    table.add_row("all", *_counted(totals))
    return table


def _counted(codes: Mapping[str, int]) -> tuple[str, str]:
    by_count = sorted(codes.items(), key=lambda one: (-one[1], one[0]))
    return f"{sum(codes.values()):,}", ", ".join(f"{code} {count:,}" for code, count in by_count)


if __name__ == "__main__":
    main()
