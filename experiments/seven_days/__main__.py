"""Serves a simulated market for seven days, and learns each night from what was served.

    python -m experiments.seven_days

By day a server ranks requests of a user and items, logs them, and takes the clicks. By night
`join`, `online` and `refresh` run. In the end the versions of each morning are compared with the
first one on the rows of their day. All of it is in `runs/seven-days`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
from rich.console import Console

from experiments.seven_days.by_day import served_day
from experiments.seven_days.in_the_end import comparison
from pipelines.common.errors import PipelineError
from pipelines.experiment.config import load_experiment
from pipelines.ingest.data_options import SimulateOptions
from pipelines.ingest.simulate.living_market import LivingMarket
from pipelines.ingest.simulate.timeline import DAY, LOG_START
from pipelines.refresh.history import History

MARKET = Path(__file__).parent / "market.toml"
CONSOLE = Console()


def recsys_attn(*arguments: object) -> None:
    """Runs a command as a user does, and shows it."""
    texts = [str(argument) for argument in arguments]
    CONSOLE.print("$ recsys-attn " + " ".join(texts), style="bold", markup=False, soft_wrap=True)
    if subprocess.run([sys.executable, "-m", "pipelines", *texts], check=False).returncode:
        raise PipelineError(f"`recsys-attn {texts[0]}` ended with an error.")


def newest(run: Path) -> int:
    """The version that was trained last and was not refused."""
    decisions = History.of(run).decisions
    return max(d.version for d in decisions if d.what in ("adopted", "published"))


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=Path("runs/seven-days"))
@click.option("--days", default=7, show_default=True, help="Days that are served.")
@click.option(
    "--set", "overrides", multiple=True, help="Keys of market.toml, as of recsys-attn run."
)
def main(folder: Path, days: int, overrides: tuple[str, ...]) -> None:
    """Serve a simulated market, and learn each night from what was served."""
    run, rows = folder / "run", folder / "rows"
    sets = [part for one in overrides for part in ("--set", one)]
    recsys_attn("run", MARKET, "--run-dir", run, *sets)
    recsys_attn("state", "load", run, "--store", f"lmdb:{folder / 'store'}")
    rows.mkdir(exist_ok=True)
    recsys_attn("refresh", run, "--data", rows)  # no rows yet: writes the server's config file

    data = load_experiment(run).data
    size, past = data.simulate or SimulateOptions(), (data.simulate or SimulateOptions()).days or 1
    market = LivingMarket(size, past, load_experiment(run).seed)
    for hour in range(LOG_START, LOG_START + past * DAY, 3600):  # users remember their clicks
        market.outcomes(market.requests(hour, hour + 3600))

    mornings = []
    for day in range(days):
        mornings.append(newest(run))
        CONSOLE.rule(f"day {day + 1}")
        with served_day(folder, run) as served:
            start = LOG_START + (past + day) * DAY
            CONSOLE.print(served.serve(market, start, start + DAY))
        recsys_attn("join", folder / "log", "--run", run, "--outcomes", folder / "events",
                    "--window", "30m", "--output", rows)  # fmt: skip
        recsys_attn("online", rows, "--run", run)
        recsys_attn("refresh", run, "--data", rows, "--set", "training.epochs=2")
    CONSOLE.rule("in the end")
    recsys_attn("history", run)
    CONSOLE.print(comparison(folder, run, mornings, LOG_START + past * DAY, recsys_attn))


if __name__ == "__main__":
    main()
