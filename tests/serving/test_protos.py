"""The generated code: current, importable with the versions that may be installed, complete."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, json_format

from serving.protos import scoring_pb2, scoring_pb2_grpc
from tests.serving.rank_messages import make_rank_request
from tests.support.protos import PROTOS, ROOT, describe

FOLDER = ROOT / "serving" / "protos"


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _lower_bound(name: str) -> tuple[int, ...]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (bound,) = (
        re.findall(rf"^{name}>=([\d.]+)", need)
        for need in project["dependencies"]
        if need.startswith(f"{name}>")
    )
    return _version(*bound)


def test_generated_code_is_current() -> None:
    """Messages, fields, numbers and types as protoc reads them now; else run `make protos`."""
    described = describe().file
    assert [file.name for file in described] == list(PROTOS)
    for current in described:
        committed = descriptor_pb2.FileDescriptorProto()
        _module(current.name).DESCRIPTOR.CopyToProto(committed)
        _drop_json_names(current)
        _drop_json_names(committed)
        assert committed == current


def _module(path: str) -> Any:
    return importlib.import_module(f"{path.removesuffix('.proto').replace('/', '.')}_pb2")


def _drop_json_names(message: Any) -> None:
    """protoc writes them where it describes a file, and not into the code."""
    for kind in [*getattr(message, "message_type", ()), *getattr(message, "nested_type", ())]:
        _drop_json_names(kind)
    for field in getattr(message, "field", ()):
        field.ClearField("json_name")


@pytest.mark.parametrize("path", PROTOS)
def test_type_stubs_match_the_messages(path: str) -> None:
    """What mypy reads has every message with its fields."""
    file = (ROOT / path).with_name(Path(path).stem + "_pb2.pyi")
    tree = ast.parse(file.read_text("utf-8"))
    found = {node.name: _slots(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    messages = _module(path).DESCRIPTOR.message_types_by_name
    assert found == {name: tuple(m.fields_by_name) for name, m in messages.items()}


def _slots(node: ast.ClassDef) -> tuple[str, ...]:
    slots = node.body[0]
    assert isinstance(slots, ast.Assign)
    return tuple(ast.literal_eval(slots.value))


def test_generated_code_runs_on_the_oldest_versions() -> None:
    """Generated code refuses a protobuf or gRPC that is older than the tools it was made with."""
    for path in PROTOS:
        code = Path(_module(path).__file__).read_text("utf-8")
        made_with = re.search(r"Protobuf Python Version: ([\d.]+)", code)
        assert made_with
        assert _version(made_with.group(1)) <= _lower_bound("protobuf"), path
    made_with_grpc = _version(scoring_pb2_grpc.GRPC_GENERATED_VERSION)
    assert made_with_grpc[:2] <= _lower_bound("grpcio")


def test_the_proto_files_example_is_a_request() -> None:
    """It is JSON of a request, and the one that the same Python values make."""
    comment = (FOLDER / "scoring.proto").read_text("utf-8").partition("syntax")[0]
    lines = [line.removeprefix("//") for line in comment.splitlines()]
    text = "\n".join(line for line in lines if line.startswith("   "))
    request = json_format.Parse(text, scoring_pb2.RankRequest())
    expected = make_rank_request(
        "ctr",
        {"user_id": "u7", "seen": ["i4", "i9"]},
        {"item_id": ["i1", "i2"], "price": [3.5, None], "tags": [["new"], []]},
    )
    del expected.context["seen"].lengths[:]  # a context's one list needs none
    assert request == expected
