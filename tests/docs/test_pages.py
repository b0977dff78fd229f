"""Every block of code on the pages works: Python and console blocks run, the rest is checked."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from pipelines.boards.board import Board
from pipelines.experiment.config import load_experiment
from pipelines.pretraining.experiment import load_sequence_experiment
from pipelines.tuning.search import load_search
from serving.protos import server_config_pb2
from tests.docs import shell
from tests.docs.pages import DOCUMENTS, PAGES, Block, Page
from tests.docs.workplace import TUTORIAL, Workplace, same
from tests.support import registries
from tests.support.experiments import NO_AUDIT

MADE = {block.title for page in PAGES for block in page.blocks() if block.title}
TUTORIALS = [page for page in PAGES if "tutorials/" in page.name and page.blocks("sh")]
WITHOUT_AUDIT = [
    "--set=evaluation.baseline_models=false",
    *(f"--set=evaluation.{name}={rows}" for name, rows in NO_AUDIT.items()),
]
LANGUAGES = {"console", "js", "json", "proto", "python", "sh", "text", "toml", "yaml"}
_TEXT_PROTOS = (
    model_server_config_pb2.ModelServerConfig,
    server_config_pb2.BatchingParameters,
    server_config_pb2.MonitoringConfig,
    server_config_pb2.SSLConfig,
)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """The folder after the first tutorial's run, and its server where a page names it."""
    folder = tmp_path_factory.mktemp("docs").resolve()
    with registries.restored(folder):
        yield from _workplace(folder)


def _workplace(folder: Path) -> Iterator[Workplace]:
    found = Workplace(folder)
    sys.path.append(str(folder))  # pages import modules of pages
    for block in TUTORIAL.blocks():
        if block.title:
            found.write(block)
    commands = [line for block in TUTORIAL.blocks("console") for line, _ in _commands(block)]
    loads = (n for n, line in enumerate(commands) if line.startswith("recsys-attn state load"))
    for line in commands[: next(loads) + 1]:
        found.command(line)
    yield found
    found.close()


def _commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown."""
    joined = block.text.replace("\\\n", "")
    for part in f"\n{joined}".split("\n$ ")[1:]:
        line, _, output = part.partition("\n")
        yield line, output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_of_a_page_prints_the_shown_output(page: Page, workplace: Workplace) -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    printed: str | None = None  # by the Python just before
    for block in page.blocks():
        shown = block.language == "text" and printed is not None
        if shown and not same(block.text, printed or ""):
            pytest.fail(f"{page.name}:{block.line} must show:\n{printed}", pytrace=False)
        printed = None
        if block.title and block.language != "console":
            workplace.write(block)
        elif block.language == "python":
            printed = workplace.python(block, page, namespace)
        elif block.language == "console":
            for line, output in _commands(block):
                received = workplace.command(line)
                if not same(output, received):
                    pytest.fail(f"{page.name}:{block.line} must show:\n{received}", pytrace=False)


@pytest.mark.thorough
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.name)
def test_commands_of_a_tutorial_run(page: Page, workplace: Workplace) -> None:
    """All but `serve`, whose server the other test starts."""
    for block in page.blocks():
        if block.title and block.language != "console":
            workplace.write(block)
    for words in (words for block in page.blocks("sh") for words in shell.commands(block.text)):
        if words[0] == "recsys-attn" and words[1] != "serve":
            quickly = WITHOUT_AUDIT if words[1] in ("run", "evaluate") else []
            assert "Error:" not in workplace.command(shlex.join([*words, *quickly]))


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_commands_of_a_page_are_valid(page: Page) -> None:
    for block in page.blocks("sh"):
        for words in shell.commands(block.text):
            shell.check(words, MADE)
    pattern = r"`((?:make|python|pytest|recsys-attn) [^`]+)`"
    for words in map(shlex.split, re.findall(pattern, page.prose)):
        if words[0] != "recsys-attn" or len(words) > 2:  # `recsys-attn run` alone is a name
            shell.check(words, MADE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_a_page_are_valid(page: Page, workplace: Workplace) -> None:
    modules = [block for block in page.blocks("python") if ".register(" in block.text]
    for block in modules:
        if block.title:
            workplace.write(block)
    own = [Path(block.title).stem for block in modules if block.title]
    for block in page.blocks():
        assert block.language in LANGUAGES, f"{page.name}:{block.line}"
        if block.language == "toml":
            _check_experiment(page, block, workplace, own)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "yaml":
            list(yaml.safe_load_all(block.text))
        elif block.language == "proto":
            _check_text_proto(block.text)


def _check_experiment(page: Page, block: Block, workplace: Workplace, own: list[str]) -> None:
    """A whole experiment, a board, a search, or tables that take the place of the tutorial's.

    Those with `objectives`, or with events, are of a sequence model: they take the place of the
    page's own tables.
    """
    base = next(b for b in TUTORIAL.blocks("toml") if b.title)
    values = tomllib.loads(block.text)
    if "models" in values:
        Board.model_validate(values)
        return
    if "ranges" in values:
        path = workplace.folder / "searched.toml"
        path.write_text(block.text, "utf-8")
        load_search(path)
        return
    if "objectives" in values or "user" in values.get("data", {}):
        first = next(b for b in page.blocks("toml") if b.title)
        path = workplace.folder / "sequences.toml"
        path.write_text(block.text if block.title else _merged(first.text, block.text), "utf-8")
        load_sequence_experiment(path)
        return
    whole = {"data", "features"} <= values.keys()
    text = block.text if whole else _merged(base.text, block.text)
    path = workplace.folder / "checked.toml"
    path.write_text(text, "utf-8")
    load_experiment(path, {"imports": own} if own else None)


def _merged(base: str, tables: str) -> str:
    """The base without the tables (`[model]`, `[[features]]`, `name =`) that others replace."""
    heads = {line.strip("[]").partition(".")[0] for line in tables.splitlines() if line[:1] == "["}
    kept, keep = [], True
    for line in base.splitlines():
        if line.startswith("["):
            keep = line.strip("[]").partition(".")[0] not in heads
        if keep:
            kept.append(line)
    first = re.search(r"^\[", tables, re.MULTILINE)
    start = first.start() if first else 0  # behind keys of no table, such as `inputs =`
    return "\n".join([tables[:start], *kept, tables[start:]])


def _check_text_proto(text: str) -> None:
    """A configuration file of the server, of any kind."""
    errors = []
    for message in _TEXT_PROTOS:
        try:
            text_format.Parse(text, message())
            return
        except text_format.ParseError as error:
            errors.append(f"{message.DESCRIPTOR.name}: {error}")
    pytest.fail("\n".join(errors), pytrace=False)
