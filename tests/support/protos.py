"""Makes the code of `serving/protos` from its `.proto` files: `python -m tests.support.protos`.

To be run with the oldest grpcio-tools that pyproject.toml allows, whose code runs with every later
version of protobuf and gRPC: the code that newer tools make refuses older ones.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from tensorflow_serving.apis import model_pb2

ROOT = Path(__file__).parents[2]
PROTOS = tuple(
    f"serving/protos/{name}.proto" for name in ("scoring", "server_config", "tensorflow_serving")
)


def generate(folder: Path) -> None:
    """Writes the messages, their types and the service's stubs below `folder`."""
    arguments = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
    _protoc(*arguments)


def describe() -> descriptor_pb2.FileDescriptorSet:
    """The `.proto` files as descriptors."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "described"
        _protoc(f"--descriptor_set_out={file}")
        return descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes())


def _protoc(*arguments: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder) / "known"
        # TensorFlow Serving's package has the compiled messages, and not the files.
        known.write_bytes(_with_imports(model_pb2.DESCRIPTOR).SerializeToString())
        # In a process of its own: beside TensorFlow, which has a protobuf too, it crashes.
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={ROOT}"]
        subprocess.run(
            [*command, f"--descriptor_set_in={known}", *arguments, *PROTOS], check=True, cwd=ROOT
        )


def _with_imports(file: FileDescriptor) -> descriptor_pb2.FileDescriptorSet:
    found = descriptor_pb2.FileDescriptorSet()
    for dependency in file.dependencies:
        found.file.extend(_with_imports(dependency).file)
    file.CopyToProto(found.file.add())
    return found


if __name__ == "__main__":
    generate(ROOT)
