"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Command = Callable[..., None]
Option = Callable[[Command], Command]

force_option = click.option("--force", is_flag=True, help="Run even if nothing has changed.")
against_option = click.option(
    "--against",
    multiple=True,
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Folder of another run to compare with, on the same rows. Repeatable: runs of one "
    "experiment with different seeds count as one model.",
)


_TIME = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])


def _adding(*options: Option) -> Option:
    """Returns the decorator that adds options to a command, in their order."""

    def add(command: Command) -> Command:
        return functools.reduce(lambda added, option: option(added), reversed(options), command)

    return add


_EXPERIMENT = _adding(
    click.argument("experiment", type=click.Path(path_type=Path)),
    click.option(
        "--run-dir",
        type=click.Path(path_type=Path),
        help="Folder of the run.  [default: EXPERIMENT if it is a folder, else "
        "runs/<name of the experiment>]",
    ),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a key of the experiment, such as training.epochs=3. Repeatable.",
    ),
    click.option(
        "--import",
        "imports",
        multiple=True,
        metavar="MODULE",
        help="Python module with parts that the experiment names, beside its file or on "
        "PYTHONPATH. Repeatable.",
    ),
)


def experiment_options(command: Command) -> Command:
    """Adds the experiment (a TOML file or a run folder), the run folder, overrides and imports."""
    return _EXPERIMENT(_with_imports(command))


def _with_imports(command: Command) -> Command:
    """Turns `--import` into overrides of the key `imports`."""

    @functools.wraps(command)
    def run(*, imports: tuple[str, ...], overrides: tuple[str, ...], **options: Any) -> None:
        added = tuple(f"imports+={name}" for name in imports)
        command(overrides=(*overrides, *added), **options)

    return run


prune_options = _adding(
    click.argument("run", type=click.Path(file_okay=False, path_type=Path)),
    click.option(
        "--run-dir",
        type=click.Path(path_type=Path),
        help="Folder of the new run.  [default: RUN-pruned]",
    ),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a key of the new run, such as training.learning_rate=1e-4. Repeatable.",
    ),
    click.option(
        "--heads",
        type=click.IntRange(min=1),
        help="Heads to keep of a model without gates, of all places together.",
    ),
    click.option(
        "--by",
        type=click.Choice(["relevance", "confidence"]),
        help="With --heads, what ranks them, on the validation rows.  [default: relevance]",
    ),
    click.option(
        "--epochs",
        type=click.IntRange(min=0),
        default=2,
        show_default=True,
        help="Maximum number of epochs of training on; 0 for none.",
    ),
)


top_k_options = _adding(
    click.option(
        "--top-k",
        type=click.IntRange(min=1),
        help="Write the best K items of each request: request, rank, item, score.",
    ),
    click.option(
        "--catalogue",
        is_flag=False,
        flag_value="",
        metavar="[FILE]",
        help="With --top-k, rank all items of a Parquet file, or without FILE those of "
        "data.items, and not the candidates of the rows.",
    ),
    click.option(
        "--unseen",
        is_flag=True,
        help="With --catalogue, leave out the items of the request's histories.",
    ),
    click.option("--rank-by", help="With --top-k, task whose scores rank.  [default: the first]"),
)


skew_options = _adding(
    click.option("--log", required=True, help="Folder of the prediction log; a path or a URI."),
    click.option(
        "--reference",
        default="train",
        show_default=True,
        help="The run's train split, or a folder of Parquet rows or of another log.",
    ),
    click.option(
        "--model", help="Model name in the log.  [default: the only one, or the export's]"
    ),
    click.option(
        "--version",
        "versions",
        multiple=True,
        type=int,
        help="Version in the log that belongs to this run. Repeatable.  [default: the "
        "versions in its export folder]",
    ),
    click.option("--since", type=_TIME, help="Only calls from this time on (UTC)."),
    click.option("--until", type=_TIME, help="Only calls before this time (UTC)."),
    click.option(
        "--by",
        "period",
        type=click.Choice(["day", "hour"]),
        default="day",
        show_default=True,
        help="Period of the drift over time.",
    ),
    click.option(
        "--sample",
        type=click.IntRange(min=0),
        default=200,
        show_default=True,
        help="Number of calls to score again, and with --state of users to replay.",
    ),
    click.option(
        "--tolerance",
        type=click.FloatRange(min=0),
        help="Largest allowed score difference.  [default: export.tolerance]",
    ),
    click.option(
        "--state",
        "events",
        metavar="EVENTS",
        type=click.Path(path_type=Path),
        help="Also compare what a store gave with a replay of the events after `ingest`: the "
        "folder that `state follow` reads.",
    ),
    click.option(
        "--fail-on-shift",
        is_flag=True,
        help="Exit with status 3 if a feature has shifted, or a score or a store's value differs.",
    ),
)


online_options = _adding(
    click.argument("rows"),
    click.option(
        "--run",
        required=True,
        type=click.Path(path_type=Path),
        help="Folder of the run whose model served the rows, or its experiment file.",
    ),
    click.option("--since", type=_TIME, help="Only answers from this time on (UTC)."),
    click.option("--until", type=_TIME, help="Only answers before this time (UTC)."),
    click.option(
        "--by",
        "period",
        type=click.Choice(["hour", "day"]),
        default="hour",
        show_default=True,
        help="Period of the numbers over time.",
    ),
    click.option(
        "--output",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of online.json and online.html.  [default: online in the run folder]",
    ),
    click.option(
        "--prometheus",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Also write the newest numbers for the textfile collector of node exporter.",
    ),
)


engine_options = _adding(
    click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="Run in this process, or on a Ray cluster.",
    ),
    click.option(
        "--ray-address",
        default="local",
        show_default=True,
        envvar="RAY_ADDRESS",
        metavar="ADDRESS",
        help="host:port of the Ray cluster; `auto` for the one running on this machine, "
        "`local` to start one with this machine's cores.",
    ),
)
