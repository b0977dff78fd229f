"""The command line: its help, its exit codes, and errors without a stack trace."""

import io
import os
import signal
import sys
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.cli import running
from pipelines.common.errors import PipelineError
from tests.integration.commands import error_of, invoke
from tests.support.experiments import write

STEPS = ("run", "ingest", "fit", "train", "evaluate", "report", "export", "prune")
COMMANDS = (
    *STEPS,
    "score",
    "demo",
    "publish",
    "compare",
    "skew",
    "warmup-from-log",
    "audit",
    "features",
    "history",
    "join",
    "online",
    "pretrain",
    "refresh",
    "reproduce",
    "state",
    "tune",
    "serve",
    "request",
)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []], ids=str)
def test_help_lists_every_command_with_a_whole_sentence(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == (0 if arguments else 2)
    text = result.output.partition("Commands:")[2]
    lines = dict(line.strip().split(maxsplit=1) for line in text.strip().splitlines())
    assert tuple(lines) == COMMANDS
    assert all(line.endswith(".") and not line.endswith("...") for line in lines.values())


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself_in_eighty_columns(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"recsys-attn {command} " in result.output.replace("main ", "recsys-attn ")
    assert max(map(len, result.output.splitlines())) <= 80
    assert ("--force" in result.output) == (command in (*STEPS, "pretrain"))


def test_help_needs_no_tensorflow() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from pipelines.cli.commands import main\n"
        "CliRunner().invoke(main, ['--help'])\n"
        "sys.exit(bool({'tensorflow', 'keras', 'pyarrow', 'grpc'} & set(sys.modules)))"
    )
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "No such command 'trian'. Did you mean 'train'?"),
        (["xyz"], "No such command 'xyz'."),
        (["train"], "Missing argument 'EXPERIMENT'"),
        (["train", "a.toml", "--run-dr", "x"], "No such option"),
        (["demo", "--rows", "100"], "is not in the range x>=10000"),
        (["score", "a.toml", "--input", "x"], "Missing option '--output'"),
        (["skew", "a.toml"], "Missing option '--log'"),
        (["warmup-from-log", "x", "--output", "y", "--requests", "1001"], "1<=x<=1000"),
    ],
    ids=str,
)
def test_a_wrong_command_line_is_a_usage_error(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "absent.toml"], "The experiment file absent.toml does not exist."),
        (["run", "E", "--set", "training.epochs"], "--set: expected KEY=VALUE. Received: "),
        (["run", "E", "--set", "=3"], "--set: expected KEY=VALUE. Received: '=3'."),
        (["run", "E", "--set", "training.epoch=3"], "Did you mean `epochs`?"),
        (["run", "E", "--set", "training.epochs=three"], 'whole number. Received: "three".'),
        (["run", "E", "--set", "training.epochs="], 'whole number. Received: "".'),
        (["run", "E", "--set", "name=[bold]"], 'Received: "[bold]".'),
        (["fit", "E"], "data does not exist yet: run `recsys-attn ingest` first"),
        (["report", "E"], "evaluation does not exist yet: run `recsys-attn evaluate` first"),
        (["score", "E", "--input", "x", "--output", "y"], "run `recsys-attn train` first"),
        (["compare", "absent"], "absent"),
        (["skew", "E", "--log", "x"], "run `recsys-attn ingest` first"),
    ],
    ids=str,
)
def test_user_errors_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(write(tmp_path))
    result = invoke(*(path if argument == "E" else argument for argument in arguments))
    assert message in error_of(result)
    assert {p.name for p in (tmp_path / "runs").rglob("*")} <= {"tiny", ".lock"}


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (PipelineError("bad [/bold] file"), 1, "Error: bad [/bold] file\n"),
        (PermissionError(13, "Permission denied", "/r"), 1, "Permission denied: '/r'\n"),
        (KeyboardInterrupt(), 130, "Interrupted. Finished steps are kept; run the same command"),
    ],
    ids=["bad input", "the system", "Ctrl-C"],
)
def test_errors_become_exit_codes(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, text: str
) -> None:
    output = io.StringIO()
    monkeypatch.setattr(running, "ERRORS", Console(file=output, width=40))
    with pytest.raises(SystemExit) as caught, running.reported():
        raise error
    assert caught.value.code == code
    assert text in output.getvalue()


def test_sigterm_is_an_interrupt() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught, running.reported():
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_override_values_are_toml_or_strings() -> None:
    texts = ["a=3", "a=3.5", "a=true", 'a="x"', "a=x y", "a=[1, 2]", "a.b={c = 1}", "a=b=c", "a="]
    values = [running._override(text)[1] for text in texts]
    assert values == [3, 3.5, True, "x", "x y", [1, 2], {"c": 1}, "b=c", ""]


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), running.reported():
        _ = 1 / 0
