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
_FOREIGN = {"curl", "git", "grpcurl", "helm", "openssl", "source", "tensorboard"}
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
    name = words[0]
    if name in _FOREIGN:
        return
    if name not in _CHECKS:
        raise ValueError(f"Unknown command {name!r}. Add a check to {Path(__file__).name}.")
    _CHECKS[name](words[1:], made)


def parse(words: list[str]) -> click.Context:
    """The context of `recsys-attn ...`; an unknown option is a click.UsageError."""
    command = main.get_command(click.Context(main), words[0])
    if command is None:
        raise ValueError(f"recsys-attn has no command {words[0]!r}.")
    if words[1:] in (["--help"], ["-h"]):
        return click.Context(command)
    return command.make_context(words[0], list(words[1:]))


def _recsys_attn(words: list[str], made: set[str]) -> None:
    if words[0] != "COMMAND":
        parse(words)


def _python(words: list[str], made: set[str]) -> None:
    words = [word for word in words if word != "-P"]
    if words in ([], ["-m"], ["-m", "venv"]):  # `python -m` alone names the option
        return
    if words[0] == "-m":
        path = ROOT / words[1].replace(".", "/")
        sources = [path.with_suffix(".py"), *path.glob("*.py")]
    else:
        sources = [ROOT / words[0]]
    if words[0] in made:
        return
    if sources[0].is_relative_to(ROOT / "benchmarks"):
        sources += (ROOT / "benchmarks/shared").glob("*.py")
    text = "".join(source.read_text("utf-8") for source in sources if source.exists())
    _require(bool(text), f"no module or file {' '.join(words)}")
    for option in words:
        if option.startswith("--"):
            _require(f'"{option.partition("=")[0]}"' in text, f"{words} has no option {option}")


def _make(words: list[str], made: set[str]) -> None:
    for target in words:
        if "=" not in target:
            _require(f"\n{target}:" in _MAKEFILE, f"the Makefile has no target {target}")


def _pip(words: list[str], made: set[str]) -> None:
    for extras in re.findall(r"\[(.+?)\]", " ".join(words)):
        for extra in extras.split(","):
            _require(f"\n{extra} = [" in _PROJECT, f"no extra {extra} in pyproject.toml")


def _pytest(words: list[str], made: set[str]) -> None:
    for path in words:
        if not path.startswith("-"):
            _require((ROOT / path.partition("::")[0]).exists(), f"no file {path}")


def _kubectl(words: list[str], made: set[str]) -> None:
    for option, path in itertools.pairwise(words):
        if option in ("-f", "-k"):
            _require((ROOT / path).exists(), f"no file {path}")


def _docker(words: list[str], made: set[str]) -> None:
    if words[0] != "compose":
        return
    for option, profile in itertools.pairwise(words):
        if option == "--profile":
            found = " ".join(re.findall(r"profiles: \[(.*?)\]", _COMPOSE))
            _require(profile in re.split(r"[ ,]+", found), f"no profile {profile}")
    if "up" in words:
        for service in words[words.index("up") + 1 :]:
            _require(f"\n  {service}:\n" in _COMPOSE, f"no service {service}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


_CHECKS: dict[str, Callable[[list[str], set[str]], None]] = {
    "recsys-attn": _recsys_attn,
    "python": _python,
    "make": _make,
    "pip": _pip,
    "pytest": _pytest,
    "kubectl": _kubectl,
    "docker": _docker,
}
