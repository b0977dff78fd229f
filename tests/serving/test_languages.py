"""Clients in other languages: the published .proto files alone are enough for them.

Each test needs the tools of its language and is skipped without them. Debian has those of Go and
Java; `npm install @grpc/grpc-js @grpc/proto-loader` in `build/node` those of Node.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tests.support.protos import ROOT

PROTOS = ROOT / "serving" / "protos"
FILES = ("scoring.proto", "tensorflow_serving/apis/model.proto")
NODE_MODULES = ROOT / "build" / "node" / "node_modules"
GO_PATH = Path("/usr/share/gocode")  # Debian's packages
JARS = tuple(
    Path("/usr/share/java", f"{name}.jar")
    for name in (
        "protobuf", "grpc-api", "grpc-core", "grpc-stub", "grpc-protobuf", "guava",
        "geronimo-annotation-1.3-spec",
    )
)  # fmt: skip


def _need(*tools: str, files: tuple[Path, ...] = ()) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    missing += [str(file) for file in files if not file.exists()]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def _run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_proto_files_are_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["serving"]
    for file in FILES:
        path = (PROTOS / file).relative_to(ROOT / "serving")
        assert any(fnmatch.fnmatch(str(path), pattern) for pattern in patterns)


def test_proto_files_compile_alone(tmp_path: Path) -> None:
    """From a copy, which has no other file to import."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROTOS / file, tmp_path / file)
    command = ("-m", "grpc_tools.protoc", "-I", tmp_path, f"--python_out={tmp_path}", *FILES)
    _run(sys.executable, *command)


def test_node_client_of_the_page(shared_address: str) -> None:
    _need("node", files=(NODE_MODULES / "@grpc" / "grpc-js", NODE_MODULES / "@grpc/proto-loader"))
    page = (ROOT / "docs" / "serving" / "clients.md").read_text("utf-8")
    (code,) = re.findall(r"```js\n(.*?)```", page, re.DOTALL)
    code = re.sub(r".*item_id.*\n", "", code).replace("user_id", "user")  # of the model `tiny`
    code = code.replace("localhost:8500", shared_address).replace('"clicks"', '"tiny"')
    code = code.replace('"protos"', json.dumps(str(PROTOS)))
    output = _run("node", "-e", code, NODE_PATH=str(NODE_MODULES))
    answer = json.loads(output)
    assert answer["ranking"] == [1, 0]
    np.testing.assert_allclose(answer["scores"]["click"]["values"], [19.0, 48.0])


@pytest.mark.thorough
def test_go_stubs_compile(tmp_path: Path) -> None:
    plugins = ("protoc-gen-go", "protoc-gen-go-grpc")
    _need("protoc", "go", *plugins, files=(GO_PATH / "src" / "google.golang.org" / "grpc",))
    (tmp_path / "src").mkdir()
    outputs = (f"--go_out={tmp_path / 'src'}", f"--go-grpc_out={tmp_path / 'src'}")
    _run("protoc", "-I", PROTOS, *outputs, *FILES)
    cache = str(ROOT / "build" / "go")
    settings = {"GO111MODULE": "off", "GOCACHE": cache, "GOPATH": f"{tmp_path}:{GO_PATH}"}
    _run("go", "build", "recsys_attn/scoring", **settings)


@pytest.mark.thorough
def test_java_stubs_compile(tmp_path: Path) -> None:
    _need("protoc", "javac", "grpc_java_plugin", files=JARS)
    plugin = f"--plugin=protoc-gen-grpc-java={shutil.which('grpc_java_plugin')}"
    outputs = (f"--java_out={tmp_path}", f"--grpc-java_out={tmp_path}")
    _run("protoc", "-I", PROTOS, plugin, *outputs, *FILES)
    sources = sorted(tmp_path.rglob("*.java"))
    assert "ScoringServiceGrpc.java" in {file.name for file in sources}
    classes = tmp_path / "classes"
    _run("javac", "-nowarn", "-cp", ":".join(map(str, JARS)), "-d", classes, *sources)
