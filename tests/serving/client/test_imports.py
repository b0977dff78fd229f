"""The client and the command `request` run with the packages of requirements-client.txt alone."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import re
import subprocess
import sys
import tomllib

from tests.support.protos import ROOT

LIST = ROOT / "requirements-client.txt"
# Refuses to import what no listed package has, as where nothing else is installed.
GUARD = """
import importlib.abc, json, sys
allowed = set(json.loads(sys.argv.pop(1))) | sys.stdlib_module_names | {"serving", "pipelines"}

class Guard(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Guard())
"""
CLIENT = """
from serving import Client, ClientOptions
address = sys.argv[1]
with Client(address, timeout=20.0) as client:
    scores = client.rank({"user": "ann"}, [{"price": 1}, {"price": 2.5}])
    rows = client.predict_rows([{"user": "ann", "history": ["a"]}])
    values = client.regress([{"price": 2.0}], signature_name="regress")
    print(scores["click"].tolist(), rows["click"].shape, values.shape, client.status()[0].version)
"""
REQUEST = """
from pipelines.cli.commands import main
sys.argv = ["recsys-attn", "request", "--json", "--address", sys.argv[1]]
main()
"""


def _needed(name: str, found: set[str]) -> set[str]:
    """A distribution and its installed dependencies."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name not in found:
        found.add(name)
        for line in metadata.requires(name) or []:
            need, _, condition = line.partition(";")
            match = re.match(r"[\w.-]+", need)
            if match and "extra" not in condition and _is_installed(match[0]):
                _needed(match[0], found)
    return found


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _listed() -> list[str]:
    lines = LIST.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _modules() -> list[str]:
    distributions: set[str] = set()
    for line in _listed():
        _needed(re.split("[<>=]", line)[0], distributions)
    return [
        module
        for module, owners in metadata.packages_distributions().items()
        if distributions & {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners}
    ]


def _run(program: str, address: str, text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", GUARD + program, json.dumps(_modules()), address],
        input=text, capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_list_is_part_of_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(_listed()) <= set(project["dependencies"])


def test_client_needs_the_listed_packages_only(shared_address: str) -> None:
    assert _run(CLIENT, shared_address).startswith("[")


def test_request_needs_the_listed_packages_only(shared_address: str) -> None:
    document = {"context": {"user": "ann"}, "candidates": [{"price": 1}, {"price": 2.5}]}
    answer = json.loads(_run(REQUEST, shared_address, json.dumps(document)))
    assert answer["scores"].keys() == {"click", "convert"}
