"""The commands of the state online: load it, follow a log, show what a store knows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pipelines.cli.command_options import Command
from pipelines.cli.running import CONSOLE, reported
from serving.state.errors import DataError

if TYPE_CHECKING:
    from serving.state.following.dead_letters import DeadLetters
    from serving.state.following.follower import Followed
    from serving.state.saved import SavedState
    from serving.state.stores.store import Store

_PLACES = (("data", "state"), ("assets.extra", "state"), ())
_PAUSE = 1.0  # seconds between two looks for new events


@click.group()
def state() -> None:
    """Keep features over time and histories in a store.

    RUN is the folder of a run whose experiment has `data.aggregates` or `data.histories`, or the
    folder of an exported version.
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
        left = "" if written == keys else f"; {keys - written:,} were there"
        CONSOLE.print(
            f"[bold]load[/bold]: {written:,} keys{left}  [dim]{escape(store)}[/dim]",
            soft_wrap=True,
        )


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
        "writes it if the experiment has `data.aggregates` or `data.histories`."
    )


@contextlib.contextmanager
def _opened(url: str) -> Iterator[Store]:
    from serving.state.stores.open_store import open_store
    from serving.state.stores.store import StoreUnavailable

    with contextlib.closing(open_store(url)) as store:
        try:
            yield store
        except StoreUnavailable as error:
            raise DataError(str(error)) from None
