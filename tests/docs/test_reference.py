"""Tables of the pages name what the code has, and links lead somewhere."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import re
import types
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

import recsys_attn
from docs import experiment_keys, imports_picture
from pipelines.cli.commands import main
from pipelines.cli.state import state
from recsys_attn.attention import presets
from serving.config.batching import BatchingParameters
from serving.config.server_config import ServerConfig
from tests.docs.pages import DOCS, DOCUMENTS, PAGES, README, ROOT, SITE, Page
from tests.support.architecture import FOLDER_ORDER

OPTIONS = Page(DOCS / "serving/options.md")
OPTIONS_OF_OTHERS = {"--models", "--help", "--go-opt", "--go-grpc-opt"}  # not ours
REQUIRED = "required"


def _fields(owner: Any) -> dict[str, str]:
    return {
        field.name: REQUIRED if field.default is dataclasses.MISSING else _written(field.default)
        for field in dataclasses.fields(owner)
    }


def _written(value: Any) -> str:
    """A default as the page has it; nothing for None, empty lists and tables."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int):
        return f"{value:,}" if value > 9999 else str(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str):
        return f'`"{value}"`' if value else ""
    if isinstance(value, tuple) and value:
        items = ", ".join(f'"{item}"' if isinstance(item, str) else str(item) for item in value)
        return f"`[{items}]`"
    return "vocabulary" if value == recsys_attn.Vocabulary() else ""


def test_pages_of_the_keys_are_current() -> None:
    for path, (owner, head) in experiment_keys.PAGES.items():
        if path.read_text("utf-8") != experiment_keys.page(owner, head):
            pytest.fail("Run `python -m docs.experiment_keys`.", pytrace=False)


def test_every_key_has_a_text_and_a_valid_example() -> None:
    _expect_none(
        [
            f"{table.path or 'top level'} {table.kind}: {key.name}: {problem}"
            for root, _ in experiment_keys.PAGES.values()
            for table in experiment_keys.tables(root)
            for key in experiment_keys.keys(table.owner)
            for problem in _problems(root, table, key)
        ]
    )


def _problems(root: type, table: experiment_keys.Table, key: experiment_keys.Key) -> Iterator[str]:
    if f"{key.name} = {experiment_keys.toml(key.default)}" == table.kind:
        return
    if key.name not in experiment_keys.descriptions(table.owner):
        yield f"add it to the docstring of {table.owner.__name__}"
    if not list(experiment_keys.classes(key.annotation)):
        value = experiment_keys.example(root, table, key)
        if value is None:
            yield "add a value to EXAMPLES in docs/key_examples.py"
        try:
            TypeAdapter(key.annotation).validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            yield str(error)


def test_pages_have_every_option_of_the_server() -> None:
    options = re.findall(r"^\| `--([a-z-]+)` \| (.*?) \|", OPTIONS.text, re.MULTILINE)
    defaults = {key.replace("_", "-"): value for key, value in _fields(ServerConfig).items()}
    assert dict(options) == defaults
    rows = Page(DOCS / "serving/batching.md").rows("Parameters")
    shown = {row[0].strip("`"): row[1] for row in rows}
    assert shown == {**_fields(BatchingParameters), "num_batch_threads": "the CPUs"}


def test_pages_name_options_that_exist() -> None:
    """Options in the text; those in blocks of code are parsed with their command."""
    context = main.make_context("recsys-attn", ["run"])
    commands = [main.get_command(context, name) for name in main.list_commands(context)]
    commands += state.commands.values()
    known = {option for one in commands if one for each in one.params for option in each.opts}
    _expect_none(
        [
            f"{page.name}: {option}"
            for page in PAGES
            for option in re.findall(r"`(--[a-z][\w-]+)", page.prose)
            if option.replace("_", "-") not in known | OPTIONS_OF_OTHERS
        ]
    )


def test_tables_have_every_command_and_preset() -> None:
    commands = main.list_commands(main.make_context("recsys-attn", ["run"]))
    for page in (README, Page(DOCS / "reference/commands.md")):
        rows = re.findall(r"^\| `recsys-attn ([a-z-]+)", page.text, re.MULTILINE)
        assert set(rows) == set(commands), page.name
    named = set(re.findall(r"[`\"](\w+)", Page(DOCS / "reference/attention.md").text))
    assert set(presets.PRESETS) - named == set()


def test_links_lead_somewhere() -> None:
    _expect_none(
        [
            f"{page.name}: {link}"
            for page in DOCUMENTS
            for link in page.links
            if "://" not in link and not _leads_somewhere(page, unquote(link))
        ]
    )


def _leads_somewhere(page: Page, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.path.parent / path).resolve() if path else page.path
    if not anchor or target.suffix != ".md":
        return target.exists()
    return target.exists() and anchor in Page(target).anchors


def test_navigation_has_every_page() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    assert sorted(_leaves(navigation)) == sorted(
        page.path.relative_to(DOCS).as_posix() for page in SITE
    )


def _leaves(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
        return
    for child in entry.values() if isinstance(entry, dict) else entry:
        yield from _leaves(child)


def test_api_pages_have_every_public_name() -> None:
    directives = [
        name for page in SITE for name in re.findall(r"^::: ([\w.]+)$", page.text, re.MULTILINE)
    ]
    shown = [value for name in directives for value in _shown(name)]
    packages = pkgutil.walk_packages(recsys_attn.__path__, "recsys_attn.")
    names = ["recsys_attn", *(module.name for module in packages if module.ispkg)]
    _expect_none(
        [
            f"{name}.{part}"
            for name in names
            if not name.endswith((".mechanisms", ".core"))  # a page has its layers, one folder up
            for part, value in _public(name).items()
            if callable(value) and not any(value is other for other in shown)
        ]
    )


def _shown(directive: str) -> list[Any]:
    """One object, or the public names of a module.

    A name that is also that of a submodule needs a directive of its own.
    """
    found = pkgutil.resolve_name(directive)
    if not isinstance(found, types.ModuleType):
        return [found]
    exported = _public(directive)
    folder = ROOT / directive.replace(".", "/")
    return [value for part, value in exported.items() if not (folder / f"{part}.py").exists()]


def _public(name: str) -> dict[str, Any]:
    """The names that a module exports."""
    module = importlib.import_module(name)
    return {part: getattr(module, part) for part in getattr(module, "__all__", ())}


def test_contributing_has_the_order_of_the_folders() -> None:
    rows = Page(ROOT / "CONTRIBUTING.md").rows("Layout")
    shown = {row[0].strip("`").replace("/", "."): row[1].split(", ") for row in rows}
    for package, order in FOLDER_ORDER.items():
        assert shown[package] == [name for name in order.split() if name != "__main__"]


def test_picture_of_the_imports_is_current() -> None:
    if imports_picture.PICTURE.read_text("utf-8") != imports_picture.draw():
        pytest.fail("Run `python -m docs.imports_picture`.", pytrace=False)


def _expect_none(found: list[str]) -> None:
    if found:
        pytest.fail("\n".join(["", *found]), pytrace=False)
