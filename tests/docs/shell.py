"""Checks command lines of the documents without running them."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from pipelines.cli.commands import main
from tests.docs.pages import ROOT

_MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
_COMPOSE = (ROOT / "docker-compose.yml").read_text("utf-8")
_PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
# Tools of others, whose options are not checked here.
_FOREIGN = {
    "cp",
    "curl",
    "echo",
    "git",
    "grpcurl",
    "helm",
    "openssl",
    "protoc",
    "source",
    "tensorboard",
}
_SYNTAX = {"export", "for", "do", "done", "cd", "pem", "pem()", "{", "}", "tar"}


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command, without comments, variables and shell syntax."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r" && | \| |; ", line):
            words = shlex.split(part, comments=True)
            while words and (re.match(r"[A-Z_]+=", words[0]) or words[0] == "do"):
                words = words[1:]
            words = [word for word in words if word != "&"]
            if words and words[0] not in _SYNTAX:
                yield words[: words.index(">")] if ">" in words else words


def check(words: list[str], made: set[str]) -> None:
    """Raises where a command line cannot work.

    Args:
        words: The command and its arguments.
        made: Names of the files that the pages make.
    """
    name, *arguments = words
    if name in _FOREIGN or (name == "python" and arguments and arguments[0] in made):
        return
    if name not in _CHECKS:
        raise ValueError(f"Unknown command {name!r}. Add a check to {Path(__file__).name}.")
    if missing := _CHECKS[name](arguments):
        raise ValueError(f"{' '.join(words)}: {missing} do not exist.")


def parse(words: list[str]) -> click.Context:
    """The context of `recsys-attn ...`; an unknown option is a click.UsageError."""
    command = main.get_command(click.Context(main), words[0])
    if isinstance(command, click.Group):
        _, *words = words
        command = command.get_command(click.Context(command), words[0])
    if command is None:
        raise ValueError(f"recsys-attn has no command {words[0]!r}.")
    if words[1:] in (["--help"], ["-h"]):
        return click.Context(command)
    return command.make_context(words[0], list(words[1:]))


def _recsys_attn(words: list[str]) -> list[str]:
    if words[0] != "COMMAND":
        parse(words)
    return []


def _python(words: list[str]) -> list[str]:
    words = [word for word in words if word != "-P"]
    if words in ([], ["-m"], ["-m", "venv"]):  # `python -m` alone names the option
        return []
    path = ROOT / (words[1].replace(".", "/") if words[0] == "-m" else words[0])
    sources = [path.with_suffix(".py"), *path.glob("*.py")]
    if path.is_relative_to(ROOT / "benchmarks"):
        sources += (ROOT / "benchmarks/shared").glob("*.py")
    text = "".join(source.read_text("utf-8") for source in sources if source.exists())
    options = [word for word in words if word.startswith("--")]
    return [o for o in options if f'"{o.partition("=")[0]}"' not in text] if text else words


def _make(words: list[str]) -> list[str]:
    return [word for word in words if "=" not in word and f"\n{word}:" not in _MAKEFILE]


def _pip(words: list[str]) -> list[str]:
    extras = ",".join(re.findall(r"\[(.+?)\]", " ".join(words)))
    return [extra for extra in extras.split(",") if extra and f"\n{extra} = [" not in _PROJECT]


def _pytest(words: list[str]) -> list[str]:
    paths = [word.partition("::")[0] for word in words if not word.startswith("-")]
    return [path for path in paths if not (ROOT / path).exists()]


def _kubectl(words: list[str]) -> list[str]:
    paths = [path for option, path in itertools.pairwise(words) if option in ("-f", "-k")]
    return [path for path in paths if not (ROOT / path).exists()]


def _docker(words: list[str]) -> list[str]:
    if words[0] != "compose":
        return []
    known = re.split(r"[ ,]+", " ".join(re.findall(r"profiles: \[(.*?)\]", _COMPOSE)))
    profiles = [name for option, name in itertools.pairwise(words) if option == "--profile"]
    services = words[words.index("up") + 1 :] if "up" in words else []
    return [name for name in profiles if name not in known] + [
        name for name in services if f"\n  {name}:\n" not in _COMPOSE
    ]


_CHECKS: dict[str, Callable[[list[str]], list[str]]] = {
    "recsys-attn": _recsys_attn,
    "python": _python,
    "make": _make,
    "pip": _pip,
    "pytest": _pytest,
    "kubectl": _kubectl,
    "docker": _docker,
}
