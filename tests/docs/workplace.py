"""Runs the code of the pages: one folder, one small run of the first tutorial, one server."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from pipelines.cli.commands import main
from serving.config.server_config import ServerConfig
from serving.server.server import Server, create_server
from tests.docs import shell
from tests.docs.pages import DOCS, Block, Page
from tests.serving.commands import free_port

TUTORIAL = Page(DOCS / "tutorials/ml-engineer.md")
ADDRESSES = {"grpc": "localhost:8500", "rest": "localhost:8501"}
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?")

# Whether a model is ahead of a baseline follows from numbers too.
_STANDING = re.compile(r"(aheadof|behind|levelwith)(\w+?)(by0)?\(\+?0to\+?0\)")


class Workplace:
    """A folder for the commands and the Python of the pages, in the order of the pages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs: dict[str, str] = {}  # by command, each of which runs once
        self._server: Server | None = None
        self._addresses: dict[str, str] = {}

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()

    def write(self, block: Block) -> None:
        """Writes the file that a block stands for."""
        path = self.folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        # A quarter of the tutorial's requests: what its commands print is the same but for numbers.
        path.write_text(block.text.replace("4_000", "1_000"), "utf-8")

    def python(self, block: Block, page: Page, namespace: dict[str, Any]) -> str:
        """Runs a block and returns its output."""
        lines = "\n" * (block.line - 1)  # so that a traceback names the line of the page
        code = compile(lines + self._here(block.text), str(page.path), "exec", dont_inherit=True)
        with self._inside(), contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        return printed.getvalue()

    def command(self, line: str) -> str:
        """Runs a command line; returns its output."""
        if line not in self.outputs:
            with self._inside():
                self.outputs[line] = self._run(shlex.split(self._here(line)))
        return self.outputs[line]

    def _run(self, words: list[str]) -> str:
        name, *rest = words
        if name == "recsys-attn":
            result = CliRunner().invoke(main, rest, env={"COLUMNS": "100"})
            # A page may show an error of the user, which ends the command with status 1.
            if result.exit_code and not isinstance(result.exception, SystemExit):
                raise RuntimeError(f"{shlex.join(words)}: {result.output}{result.exception!r}")
            return result.output
        if name == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                runpy.run_path(rest[0], run_name="__main__")
            return printed.getvalue()
        if name == "curl":
            return _fetch(rest)
        if name in ("ls", "cat", "head", "find"):
            return subprocess.run(words, capture_output=True, text=True, check=True).stdout
        raise ValueError(f"A console block may not run {name!r}; write it as `sh`.")

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(before)

    def _here(self, text: str) -> str:
        """The text with the addresses of a server, which the first text with an address starts."""
        if not any(address in text for address in ADDRESSES.values()):
            return text
        if self._server is None:
            self._serve()
        for protocol, address in ADDRESSES.items():
            text = text.replace(address, self._addresses[protocol])
        return text

    def _serve(self) -> None:
        """Starts the server of the tutorial's `recsys-attn serve` on free ports."""
        lines = [
            command for block in TUTORIAL.blocks("sh") for command in shell.commands(block.text)
        ]
        (words,) = [words for words in lines if words[:2] == ["recsys-attn", "serve"]]
        options = shell.parse(words[1:]).params
        with self._inside():
            folder = str(Path(options["model_base_path"]).resolve())
            state = f"lmdb:{Path(options['state'].removeprefix('lmdb:')).resolve()}"
        rest = free_port()
        own = {"port": 0, "rest_api_port": rest, "model_base_path": folder, "state": state}
        self._server, port = create_server(ServerConfig(**{**options, **own}))
        self._server.start()
        self._addresses = {"grpc": f"localhost:{port}", "rest": f"localhost:{rest}"}


def _fetch(words: list[str]) -> str:
    """The output of curl with -s, -H and -d."""
    headers, data, url, words = {}, None, "", list(words)
    while words:
        word = words.pop(0)
        if word == "-H":
            key, _, value = words.pop(0).partition(": ")
            headers[key] = value
        elif word == "-d":
            given = words.pop(0)
            data = Path(given[1:]).read_bytes() if given[0] == "@" else given.encode()
        elif word != "-s":
            url = word if "://" in word else f"http://{word}"
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def same(shown: str, printed: str) -> bool:
    """Whether the output is as shown, whatever its numbers and its line breaks.

    A shown line of `...` alone stands for any lines. JSON is compared as data.
    """
    with contextlib.suppress(ValueError):
        return _without_numbers(json.loads(shown)) == _without_numbers(json.loads(printed))
    parts = re.split(r"^ *\.\.\.$", shown, flags=re.MULTILINE)
    pattern = ".*".join(re.escape(_normal(part)) for part in parts)
    return re.fullmatch(pattern, _normal(printed), re.DOTALL) is not None


def _normal(text: str) -> str:
    text = re.sub(r"[━─═]+", "-", _NUMBER.sub("0", text))
    text = re.sub(r"\b0 (high|low)\b", "0", text)  # the mark of a calibration follows its number
    return _STANDING.sub(r"\2", re.sub(r"\s+", "", text))


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_numbers(item) for item in value]
    if isinstance(value, str) and value.isdecimal():  # a time, as text
        return "0"
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value
