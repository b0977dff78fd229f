"""`recsys-attn` as a user starts it: in this process, or as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from pipelines.cli.commands import main
from tests.support.experiments import write

# It hears Ctrl-C, which a process ignores where the tests run in a shell's background. It sees to
# that itself: between fork and exec, gRPC of the tests' process may write into its pipes.
COMMAND = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from pipelines.cli.commands import main; main(prog_name='recsys-attn')",
]


def invoke(*arguments: str | Path) -> Result:
    """Runs a command here; standard output and error are apart in the result."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def start(*arguments: str | Path, columns: int = 80, tf_config: str = "") -> subprocess.Popen[str]:
    """Starts a command whose output goes into pipes, as in a script."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**_environment(), "COLUMNS": str(columns), "TF_CONFIG": tf_config},
    )


def finish(folder: Path) -> None:
    """The small experiment's file and its whole `run`, and what a process of its own printed."""
    with start("run", write(folder), "--run-dir", folder / "run") as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    (folder / "output.txt").write_text(output, "utf-8")
    (folder / "errors.txt").write_text(errors, "utf-8")


def _environment() -> dict[str, str]:
    """The user's environment: nothing that the tests set for themselves."""
    own = ("TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND")
    return {key: value for key, value in os.environ.items() if key not in own}


def error_of(result: Result) -> str:
    """The one sentence of a command that failed as it should."""
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    return result.stderr.removeprefix("Error: ").rstrip()


def hidden_or_half(folder: Path) -> list[str]:
    """What an atomic step must not leave behind."""
    return [str(path) for path in folder.rglob(".*") if path.name != ".lock"]
