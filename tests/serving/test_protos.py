"""The generated code: current, importable with the versions that may be installed, complete."""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from grpc_health.v1 import health_pb2
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import model_pb2, model_service_pb2, prediction_service_pb2

from serving.client.connection import METHODS
from serving.protos import scoring_pb2, scoring_pb2_grpc, tensorflow_serving_pb2
from tests.serving.rank_messages import make_rank_request
from tests.support.protos import PROTOS, ROOT, VENDORED, describe

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
    *described, vendored = describe().file
    assert [file.name for file in described] == list(PROTOS)
    for current in described:
        _require_equal(current, _module(current.name).DESCRIPTOR)
    assert vendored.name == VENDORED
    vendored.options.ClearField("go_package")  # TensorFlow Serving sets none
    _require_equal(vendored, model_pb2.DESCRIPTOR)


def _require_equal(current: descriptor_pb2.FileDescriptorProto, code: FileDescriptor) -> None:
    committed = descriptor_pb2.FileDescriptorProto()
    code.CopyToProto(committed)
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
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    # An enum has a keyword.
    found = {node.name: _slots(node) for node in classes if not node.keywords}
    messages = _module(path).DESCRIPTOR.message_types_by_name
    assert found == {name: tuple(m.fields_by_name) for name, m in messages.items()}


def test_the_clients_messages_are_tensorflow_servings() -> None:
    """Each field has the number, the type and the oneof that it has there."""
    pool = descriptor_pool.Default()
    for name, own in tensorflow_serving_pb2.DESCRIPTOR.message_types_by_name.items():
        package = "serving." if _is_servings(name) else ""
        _require_same(own, pool.FindMessageTypeByName(f"tensorflow.{package}{name}"))
    known = dict(types_pb2.DataType.items())
    assert dict(tensorflow_serving_pb2.DataType.items()).items() <= known.items()


def _is_servings(name: str) -> bool:
    """Whether a message is of TensorFlow Serving, not of TensorFlow."""
    with contextlib.suppress(KeyError):
        descriptor_pool.Default().FindMessageTypeByName(f"tensorflow.serving.{name}")
        return True
    return False


def _require_same(own: Descriptor, theirs: Descriptor) -> None:
    assert own.name == theirs.name
    for field in own.fields:
        other = theirs.fields_by_name[field.name]
        assert _form(field) == _form(other), field.full_name
        if field.message_type is not None and not field.message_type.file.package.startswith(
            "google"
        ):
            assert field.message_type.name == other.message_type.name, field.full_name
            if field.message_type.GetOptions().map_entry:
                _require_same(field.message_type, other.message_type)
    for nested in own.nested_types:
        if not nested.GetOptions().map_entry:
            _require_same(nested, theirs.nested_types_by_name[nested.name])


def _form(field: FieldDescriptor) -> tuple[Any, ...]:
    """Returns the form of a field on the wire; an enum is an int32 there."""
    kind = FieldDescriptor.TYPE_INT32 if field.type == FieldDescriptor.TYPE_ENUM else field.type
    union = field.containing_oneof
    return field.number, kind, field.is_repeated, None if union is None else union.name


def test_the_clients_methods_are_the_services() -> None:
    """Path, request and response of each method that the client calls."""
    for module in (prediction_service_pb2, model_service_pb2, health_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for name, request, response in METHODS[service.full_name]:
                method = service.methods_by_name[name]
                own = (request.DESCRIPTOR.name, response.DESCRIPTOR.name)
                assert own == (method.input_type.name, method.output_type.name)


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
