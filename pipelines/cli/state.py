"""The commands of the state online: load it, follow a log, show what a store knows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pipelines.cli.command_options import Command
from pipelines.cli.running import CONSOLE, reported
from serving.state.errors import DataError

if TYPE_CHECKING:
    from serving.state.following.dead_letters import DeadLetters
    from serving.state.following.follower import Followed
    from serving.state.online.describe import GroupSummary
    from serving.state.saved import SavedState
    from serving.state.stores.store import Store

_PLACES = (("data", "state"), ("assets.extra", "state"), ())
_PAUSE = 1.0  # seconds between two looks for new events
_DAY = 86_400.0


@click.group()
def state() -> None:
    """Keep the features of users and items in a store.

    RUN is the folder of a run whose experiment has `data.aggregates`, `data.histories` or
    `data.users`, or the folder of an exported version.
    """


def _of_store(command: Command) -> Command:
    """Adds the run and the store."""
    run = click.argument("run", type=click.Path(path_type=Path))
    store = click.option(
        "--store",
        required=True,
        metavar="URL",
        help="lmdb:FOLDER on this machine, or redis://HOST:PORT.",
    )
    return run(store(command))


@state.command()
@_of_store
@click.option("--force", is_flag=True, help="Replace what the store holds of these features.")
def load(run: Path, store: str, force: bool) -> None:
    """Write the state after the last row of `ingest` to a store.

    An interrupted load goes on where it was. Features that the store holds already, and newer, stay
    as they are.
    """
    from serving.state.online.load import load_state

    with reported(), _opened(store) as opened:
        saved = _saved(run)
        keys = sum(map(saved.keys, saved.definition.stored))
        columns = (TextColumn("load"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=CONSOLE, transient=True) as progress:
            task = progress.add_task("load", total=keys)
            written = load_state(saved, opened, lambda n: progress.advance(task, n), force)
        left = "" if written == keys else f"; {keys - written:,} were there, or newer"
        CONSOLE.print(
            f"[bold]load[/bold]: {written:,} keys{left}  [dim]{escape(store)}[/dim]",
            soft_wrap=True,
        )
        _check_age(saved)


@state.command()
@_of_store
@click.option(
    "--from",
    "log",
    required=True,
    metavar="LOG",
    help="Folder of Parquet or JSON-lines files, or kafka://BROKER:PORT/TOPIC.",
)
@click.option("--once", is_flag=True, help="End when all events are read, and do not wait.")
@click.option(
    "--dead-letters",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("dead-letters.jsonl"),
    show_default=True,
    help="File of the events that are not counted, with the reason.",
)
def follow(run: Path, store: str, log: str, once: bool, dead_letters: Path) -> None:
    """Add the events of a log to a store as they appear.

    Each event counts once, however often the command is killed and started again. Late, future and
    invalid events are written to a file. Ctrl-C ends it.
    """
    from serving.state.following.dead_letters import DeadLetters
    from serving.state.following.follower import Follower
    from serving.state.following.open_log import open_log
    from serving.state.online.load import check_loaded
    from serving.state.online.writer import StateWriter

    with reported(), _opened(store) as opened:
        _check_outside(dead_letters, log)
        saved = _saved(run)
        definition = saved.definition
        loaded = check_loaded(opened, saved, f"recsys-attn state load {run} --store {store}")
        known = {group: of.files for group, of in loaded.items()}
        writer = StateWriter(opened, definition)
        letters = DeadLetters(dead_letters)
        source = open_log(log, definition, opened, writer, known, _report)
        with contextlib.closing(source), CONSOLE.status("follow") as status:
            follower = Follower(
                opened,
                definition,
                writer,
                source,
                letters,
                lambda followed: status.update(f"follow: {_in_words(followed)}"),
            )
            try:
                follower.catch_up() if once else follower.follow(_PAUSE)
            finally:
                _summary(follower.followed, letters, store)


@state.command()
@_of_store
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="A key to show, such as user_id=u1; give it again for pairs.  [default: all groups]",
)
@click.option("--as-of", help="Time of the values, as the log holds times.  [default: now]")
def show(run: Path, store: str, keys: tuple[str, ...], as_of: str | None) -> None:
    """Show what a store holds: of each group, or of one user or item."""
    from serving.state.online.describe import group_summaries, key_summary

    with reported(), _opened(store, writes=False) as opened:
        definition = _saved(run).definition
        if not keys:
            table = _table("key", "keys", "MB", "newest row", "age", "lag", title=store)
            for group in group_summaries(opened, definition):
                table.add_row(
                    _key(group),
                    f"{group.keys:,}",
                    f"{group.size / 1e6:,.1f}",
                    group.newest or "none",
                    _duration(group.age),
                    _lag(group),
                )
            CONSOLE.print(table)
            CONSOLE.print(f"Size of the store: {opened.size() / 1e6:,.1f} MB")
            return
        table = _table("feature", "value now" if as_of is None else "value", "events", "by")
        summary = key_summary(opened, definition, _key_values(keys), as_of)
        for feature in summary.features:
            table.add_row(
                feature.name, _value(feature.value), _events(feature.ages), ", ".join(feature.by)
            )
        CONSOLE.print(table)
        if summary.newest is not None:
            CONSOLE.print(f"Newest event: {summary.newest} ({_duration(summary.age)} ago)")


@state.command()
@_of_store
def forget(run: Path, store: str) -> None:
    """Remove keys without a row for `forget_after`, and old event ids.

    Values stay as they are: a later row and a later request need nothing of what is removed.
    """
    from serving.state.online.expiry import forget_old

    with reported(), _opened(store) as opened:
        for group in forget_old(opened, _saved(run).definition):
            CONSOLE.print(
                f"[bold]forget[/bold]: {group.removed:,} of {group.keys:,} keys of "
                f"{', '.join(group.by) or 'all rows'}"
            )


def _key(group: GroupSummary) -> str:
    name = ", ".join(group.by) or "all rows"
    return name if group.of is None else f"{name} (data.{group.of}s)"


def _key_values(keys: tuple[str, ...]) -> dict[str, str]:
    for key in keys:
        if "=" not in key:
            raise DataError(f"--key: expected COLUMN=VALUE. Received: {key!r}.")
    return {name: value for name, _, value in (key.partition("=") for key in keys)}


def _table(*columns: str, title: str | None = None) -> Table:
    table = Table(title=None if title is None else escape(title), title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _value(value: Any) -> str:
    from serving.state.columns.missing import MISSING_INT

    if isinstance(value, list):
        return escape(", ".join("null" if one is None else str(one) for one in value)) or "none"
    if value != value or value in ("", MISSING_INT):
        return "nothing known"
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))


def _events(ages: list[float] | None) -> str:
    return "no such key" if ages is None else ", ".join(f"{_duration(age)} ago" for age in ages)


def _lag(group: GroupSummary) -> str:
    if not group.is_loaded:
        return "not loaded"
    return "not followed" if group.lag is None else _duration(group.lag)


def _duration(seconds: float | None) -> str:
    """A time in the largest unit of which it has two."""
    if seconds is None:
        return "unknown"
    units = (("d", 86_400), ("h", 3600), ("min", 60))
    unit, size = next(((u, size) for u, size in units if seconds >= 2 * size), ("s", 1))
    return f"{seconds / size:,.0f} {unit}"


def _summary(followed: Followed, letters: DeadLetters, store: str) -> None:
    CONSOLE.print(
        f"[bold]follow[/bold]: {_in_words(followed)}  [dim]{escape(store)}[/dim]", soft_wrap=True
    )
    if letters.counts:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(letters.counts.items()))
        CONSOLE.print(
            f"[bold yellow]Not counted:[/bold yellow] {counts}  "
            f"[dim]{escape(str(letters.path))}[/dim]",
            soft_wrap=True,
        )


def _in_words(followed: Followed) -> str:
    speed = f", {followed.events / followed.seconds:,.0f} a second" if followed.seconds else ""
    again = f", {followed.repeated:,} repeated" if followed.repeated else ""
    return f"{followed.events:,} events{again}{speed}"


def _report(sentence: str) -> None:
    CONSOLE.print(f"[bold yellow]Left out:[/bold yellow] {escape(sentence)}", soft_wrap=True)


def _check_age(saved: SavedState) -> None:
    """Prints the age of the newest row if it shows a wrong unit: ten years, or in the future."""
    from serving.state.online.clock import Clock
    from serving.state.online.describe import seconds_between

    clock = Clock(saved.definition)
    now, newest = clock.now(), saved.newest
    age = None if newest is None else seconds_between(saved.definition, now, newest)
    if age is None or -_DAY <= age <= 3650 * _DAY:
        return
    when = f"{_duration(age)} old" if age > 0 else f"{_duration(-age)} ahead of the clock"
    CONSOLE.print(
        f"[bold yellow]The newest row is {when}[/bold yellow], so that windows as of now do not "
        "have its events. Check the times of the log and `data.time_unit`.",
        soft_wrap=True,
    )


def _check_outside(letters: Path, log: str) -> None:
    """Checks that the events that are not counted do not become events of the log."""
    if letters.resolve().is_relative_to(Path(log).resolve()):
        raise DataError(
            f"--dead-letters: expected a file outside the folder of --from, whose files are "
            f"events. Received: {letters}."
        )


def _saved(run: Path) -> SavedState:
    """The state of a run or of an exported version."""
    from serving.state.saved import DEFINITION, SavedState

    for place in _PLACES:
        folder = run.joinpath(*place)
        if (folder / DEFINITION).is_file():
            return SavedState.open(folder)
    raise DataError(
        f"RUN: expected the folder of a run, or of an exported version, with a state: "
        f"{run / 'data/state'} or {run / 'assets.extra/state'} is missing. `recsys-attn ingest` "
        "writes it if the experiment has `data.aggregates`, `data.histories` or `data.users`."
    )


@contextlib.contextmanager
def _opened(url: str, writes: bool = True) -> Iterator[Store]:
    from serving.state.stores.open_store import open_store
    from serving.state.stores.store import StoreUnavailable

    try:
        with contextlib.closing(open_store(url, writes)) as store:
            yield store
    except StoreUnavailable as error:
        raise DataError(str(error)) from None
