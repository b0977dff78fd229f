"""The rules of CONTRIBUTING.md, held against the code's own syntax trees.

The second half tries every rule on a few lines that break it and a few that keep it: a rule
that finds nothing anywhere would pass too.
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
EVERYTHING = CODE + _read("tests", "benchmarks")
MODULES = {source.module for source in CODE}
EXTRAS = PROJECT["optional-dependencies"]
NOT_AT_RUN_TIME = ("dev", "docs", "oracles")
RUNTIME = _names(PROJECT["dependencies"]).union(
    *(_names(needs) for extra, needs in EXTRAS.items() if extra not in NOT_AT_RUN_TIME)
)
PEERS = _names((ROOT / "benchmarks/peers/requirements.txt").read_text("utf-8").splitlines())
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
    rules.ray_apart,
    rules.private_tensorflow,
    rules.parts_without_models,
    rules.independent_slots,
    rules.folder_order,
    rules.argument_counts,
    rules.no_asserts,
    rules.public_names,
    _names_from_their_module,
    _declared_at_run_time,
)
RULES_OF_EVERYTHING: tuple[Rule, ...] = (
    rules.function_sizes,
    rules.no_relative_imports,
    rules.no_unfinished_work,
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


@pytest.mark.parametrize("source", [s for s in CODE if s.all_names], ids=lambda s: s.module)
def test_every_public_name_can_be_imported(source: Source) -> None:
    module = importlib.import_module(source.module)
    _expect_none(
        [
            f"{source.path}:1: __all__ names {name}, which it does not have"
            for name in source.all_names or ()
            if not hasattr(module, name)
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
LAYER = "class A:\n  def __init__(self, {}): ...".format
LONG_BODY = "    x = 1\n" * rules.MAX_FUNCTION_LINES
INIT = "serving/__init__.py"
LIBRARY = "recsys_attn/a.py"
ATTENTION = "recsys_attn/attention/a.py"
SCORES = "recsys_attn/attention/scores/dot.py"


@pytest.mark.parametrize(
    ("rule", "path", "text", "line"),
    [
        (rules.package_imports, LIBRARY, "import keras\nimport tensorflow as tf", 2),
        (rules.package_imports, LIBRARY, "def f():\n    from jax import numpy", 2),
        (rules.package_imports, LIBRARY, "import pipelines.cli.commands", 1),
        (rules.package_imports, "serving/a.py", "from recsys_attn.schema import Schema", 1),
        (rules.package_imports, "serving/a.py", "import grpc, pipelines", 1),
        (rules.package_imports, "serving/a.py", "import importlib as i\ni.import_module('jax')", 2),
        (rules.package_imports, "pipelines/a.py", "import pandas", 1),
        (rules.package_imports, "pipelines/a.py", "__import__('jax')", 1),
        (rules.lazy_serving, "pipelines/cli/commands.py", "from serving.server import serve", 1),
        (rules.lazy_serving, "pipelines/cli/commands.py", "class A:\n    import serving", 2),
        (rules.ray_apart, "pipelines/engines/choose.py", "def f():\n    import ray.data", 2),
        (rules.ray_apart, "pipelines/a.py", "from pipelines.engines.ray.engine import Ray", 1),
        (rules.private_tensorflow, "serving/a.py", "from tensorflow.python.client import x", 1),
        (rules.parts_without_models, "recsys_attn/blocks/mlp.py", "import recsys_attn.models", 1),
        (rules.parts_without_models, ATTENTION, "from recsys_attn import models", 1),
        (rules.independent_slots, SCORES, "from recsys_attn.attention.patterns import Local", 1),
        (rules.independent_slots, SCORES, "from recsys_attn.attention import weightings", 1),
        (rules.folder_order, LIBRARY, "x = 1", 1),
        (rules.folder_order, "recsys_attn/layer.py", "import keras, recsys_attn.blocks", 1),
        (rules.folder_order, SCORES, "from recsys_attn.attention.mechanisms import dense", 1),
        (_names_from_their_module, SCORES, "from recsys_attn.attention import Softmax", 1),
        (_names_from_their_module, "serving/client.py", "\nimport serving", 2),
        (_declared_at_run_time, "pipelines/a.py", "import sklearn.metrics", 1),
        (_declared_for_development, "tests/a.py", "import pandas", 1),
        (rules.function_sizes, "tests/a.py", f"def f():\n{LONG_BODY}", 1),
        (rules.argument_counts, LIBRARY, LAYER(f"{EIGHT}, b"), 2),
        (rules.argument_counts, LIBRARY, LAYER(f"{EIGHT}, *, b"), 2),
        (rules.public_names, INIT, "from serving.client import Client", 1),
        (rules.public_names, INIT, "from serving.a import A, B\n__all__ = ['B']", 1),
        (rules.public_names, INIT, "from serving.a import A, B\n__all__ = ['B', 'A']", 1),
        (rules.no_asserts, "serving/a.py", "def f():\n    assert True", 2),
        (rules.no_relative_imports, "serving/a.py", "\nfrom .b import c", 2),
        (rules.no_relative_imports, "serving/a.py", "from . import b", 1),
        (rules.no_unfinished_work, "serving/a.py", "x = 1\n# TO" "DO: two", 2),
    ],
)  # fmt: skip
def test_a_rule_finds_what_breaks_it(rule: Rule, path: str, text: str, line: int) -> None:
    (finding,) = rule(Source(path, text))
    assert finding.startswith(f"{path}:{line}: ")


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (rules.package_imports, LIBRARY, "import math, keras\nfrom recsys_attn import b"),
        (rules.package_imports, "recsys_attn/backend/a.py", "import tensorflow, jax"),
        (rules.package_imports, "serving/a.py", "import grpc, tensorflow_serving.apis"),
        (rules.lazy_serving, "pipelines/a.py", "def f():\n    from serving.server import serve"),
        (rules.ray_apart, "pipelines/engines/ray/engine.py", "import ray"),
        (rules.private_tensorflow, "serving/a.py", "from tensorflow.core.framework import x"),
        (rules.parts_without_models, "recsys_attn/models/din.py", "import recsys_attn.models.a"),
        (rules.independent_slots, SCORES, "from recsys_attn.attention.scores.base import Score"),
        (rules.independent_slots, SCORES, "from recsys_attn.attention.masks import all_of"),
        (rules.folder_order, SCORES, "from recsys_attn.attention.core import positions"),
        (rules.folder_order, "recsys_attn/attention/__init__.py", "import recsys_attn.layer"),
        (_names_from_their_module, "pipelines/cli/commands.py", "from recsys_attn import MMoE"),
        (_names_from_their_module, LIBRARY, "from recsys_attn import schema"),
        (_declared_at_run_time, "serving/a.py", "import grpc, json, numpy"),
        (_declared_for_development, "tests/a.py", "import sklearn, pytest\nfrom tests import b"),
        (rules.function_sizes, "tests/a.py", f'def f():\n    """{LONG_BODY}"""\n    return 1'),
        (rules.argument_counts, LIBRARY, LAYER(f"{EIGHT}, **kwargs")),
        (rules.public_names, INIT, "from serving import f10, B, f2\n__all__ = ['B', 'f2', 'f10']"),
        (rules.public_names, INIT, "import json\nfrom typing import Any\n_private = 1"),
        (rules.public_names, "serving/a.py", "def f(): ..."),
        (rules.no_asserts, "serving/a.py", "raise ValueError('assert')"),
        (rules.no_relative_imports, "serving/a.py", "from serving.b import c"),
        (rules.no_unfinished_work, "serving/a.py", "# nothing is left to do"),
    ],
)  # fmt: skip
def test_a_rule_finds_nothing_else(rule: Rule, path: str, text: str) -> None:
    assert rule(Source(path, text)) == []


def test_file_sizes_find_one_file_too_long_and_too_many_long_ones() -> None:
    short = [Source(f"serving/s{index}.py", "x = 1") for index in range(19)]
    long = [Source(f"serving/l{index}.py", "x = 1\n" * 300) for index in range(3)]
    too_long = Source("serving/t.py", "x = 1\n" * (rules.MAX_FILE_LINES + 1))

    assert rules.file_sizes([*short, long[0]]) == []
    assert len(rules.file_sizes([*short, too_long])) == 1
    assert len(rules.file_sizes([*short, *long])) == 3
