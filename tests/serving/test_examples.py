"""The examples in docstrings run, and every public value has one."""

from __future__ import annotations

import doctest
import functools
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import serving
from serving import AsyncClient, Client, ServingError

ROOT = Path(__file__).parents[2]
MODULES = [
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for path in sorted((ROOT / "serving").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, shared_address: str, tmp_path: Path) -> None:
    def connect(kind: Any, addresses: Any, model: str) -> Any:
        return kind(shared_address, model="tiny")

    names = {
        "Client": functools.partial(connect, Client),
        "AsyncClient": functools.partial(connect, AsyncClient),
        "folder": str(tmp_path),
    }
    found = doctest.testmod(importlib.import_module(name), extraglobs=names)
    assert found.attempted > 0
    assert found.failed == 0


def test_public_values_have_examples() -> None:
    public = [getattr(serving, name) for name in serving.__all__]
    made_by_users = [kind for kind in public if not issubclass(kind, ServingError)]
    made_by_users.remove(serving.Ranking)
    assert [kind.__name__ for kind in made_by_users if ">>> " not in kind.__doc__] == []


def test_import_of_the_package_is_cheap() -> None:
    program = (
        "import serving, sys; print(sorted({'grpc', 'numpy', 'tensorflow'} & set(sys.modules)))"
    )
    output = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True)
    assert output == "[]\n"
    with pytest.raises(AttributeError, match="has no attribute 'Server'"):
        serving.Server  # noqa: B018
    assert dir(serving) == serving.__all__
