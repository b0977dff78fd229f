"""Opens run folders for commands, and shows errors as sentences."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import tomllib
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console
from rich.markup import escape

from pipelines.calls import opened as calls
from pipelines.calls.opened import CONSOLE as CONSOLE
from pipelines.calls.opened import Opening
from pipelines.common.errors import PipelineError, sentence
from serving.state.errors import DataError

if TYPE_CHECKING:
    from pipelines.pretraining.sequence_steps import SequenceSteps
    from pipelines.workflow.run_steps import RunSteps
    from pipelines.workflow.steps import Steps

ERRORS = Console(stderr=True, highlight=False)


@contextlib.contextmanager
def opened(
    experiment: Path, run_dir: Path | None, overrides: tuple[str, ...], force: bool = False
) -> Iterator[RunSteps]:
    """Opens an experiment of any kind of model."""
    with (
        reported(),
        calls.opened(Opening(experiment, run_dir, values_of(overrides), force)) as steps,
    ):
        yield steps


@contextlib.contextmanager
def opened_ranking(
    experiment: Path,
    run_dir: Path | None,
    overrides: tuple[str, ...],
    force: bool = False,
    changed: Mapping[str, Any] | None = None,
) -> Iterator[Steps]:
    """Opens the experiment of a ranking model, with changed keys below the overrides."""
    with reported():
        values = {**(changed or {}), **values_of(overrides)}
        with calls.opened_ranking(Opening(experiment, run_dir, values, force)) as steps:
            yield steps


@contextlib.contextmanager
def opened_sequences(
    experiment: Path, run_dir: Path | None, overrides: tuple[str, ...], force: bool = False
) -> Iterator[SequenceSteps]:
    """Opens the experiment of a sequence model."""
    with reported():
        opening = Opening(experiment, run_dir, values_of(overrides), force)
        with calls.opened_sequences(opening) as steps:
            yield steps


def values_of(overrides: tuple[str, ...]) -> dict[str, Any]:
    """The values of `--set` by dotted key."""
    return dict(_override(text) for text in overrides)


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Prints an error that a user can fix as one sentence and exits with a status code."""
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except DataError as error:
        _print_error(str(error))
        raise SystemExit(error.exit_status) from None
    except Exception as error:
        if not _is_of_data(error):
            raise
        _print_error(_unforeseen(error))
        raise SystemExit(1) from None
    except KeyboardInterrupt as interrupt:
        ERRORS.print(
            "[bold]Interrupted.[/bold] Finished steps are kept; run the same command to continue "
            "from there.",
            soft_wrap=True,
        )
        ending = signal.SIGTERM if isinstance(interrupt, _Terminated) else signal.SIGINT
        raise SystemExit(128 + ending) from None
    finally:
        signal.signal(signal.SIGTERM, previous)


def _print_error(text: str) -> None:
    ERRORS.print(f"[bold red]Error:[/bold red] {escape(text)}", soft_wrap=True)


def _is_of_data(error: Exception) -> bool:
    """Whether the file system, Arrow or a text raised the error."""
    from_arrow = any(kind.__module__.startswith("pyarrow") for kind in type(error).__mro__)
    return from_arrow or isinstance(error, OSError | UnicodeError)


def _unforeseen(error: Exception) -> str:
    """The sentence for an error that no step foresaw; the traceback goes to a file."""
    where = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    if isinstance(error, OSError) and error.filename is not None:
        return f"{where}{error}"  # which names the file, and says what to do
    with tempfile.NamedTemporaryFile(
        "w", prefix="recsys-attn-", suffix=".log", delete=False
    ) as log:
        log.write("".join(traceback.format_exception(error)))
    reason = " ".join(str(error).split())
    return (
        f"{where}{type(error).__name__}: {sentence(reason)} A value or a file is not as expected; "
        f"the traceback is in {log.name}."
    )


class _Terminated(KeyboardInterrupt):
    """The process received SIGTERM."""


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def _override(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise PipelineError(f"--set: expected KEY=VALUE. Received: {text!r}.")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value  # a bare word is a string
