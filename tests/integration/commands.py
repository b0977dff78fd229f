"""`recsys-attn` as a user starts it: in this process, or as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from pipelines.cli.commands import main
from tests.support.experiments import write

# With Ctrl-C, which a background process ignores. Set in the process itself: between fork and
# exec, gRPC of the tests may write into its pipes.
COMMAND = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from pipelines.cli.commands import main; main(prog_name='recsys-attn')",
]


def invoke(*arguments: str | Path) -> Result:
    """Runs a command in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def start(*arguments: str | Path, tf_config: str = "") -> subprocess.Popen[str]:
    """Starts a command with the environment of a user; its output goes into pipes."""
    own = ("TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND")
    user = {key: value for key, value in os.environ.items() if key not in own}
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**user, "COLUMNS": "80", "TF_CONFIG": tf_config},
    )


def finish(folder: Path) -> None:
    """Writes the small experiment, its `run` and the output of that process."""
    with start("run", write(folder), "--run-dir", folder / "run") as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    (folder / "output.txt").write_text(output, "utf-8")
    (folder / "errors.txt").write_text(errors, "utf-8")


def error_of(result: Result) -> str:
    """Returns the one-line error of a failed command."""
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    return result.stderr.removeprefix("Error: ").rstrip()


def hidden_or_half(folder: Path) -> list[str]:
    """Returns the temporary files that an atomic step removes."""
    return [str(path) for path in folder.rglob(".*") if path.name != ".lock"]
