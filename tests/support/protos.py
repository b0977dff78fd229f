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

ROOT = Path(__file__).parents[2]
PROTOS = tuple(
    f"serving/protos/{name}.proto"
    for name in ("scoring", "server_config", "state", "tensorflow_serving")
)
# Python's code for it is in TensorFlow Serving's package.
VENDORED = "tensorflow_serving/apis/model.proto"


def generate(folder: Path) -> None:
    """Writes the messages, their types and the service's stubs below `folder`."""
    arguments = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
    _protoc(*arguments)


def describe() -> descriptor_pb2.FileDescriptorSet:
    """The `.proto` files as descriptors, the vendored one last."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "described"
        _protoc(f"--descriptor_set_out={file}", VENDORED)
        found = descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes())
    found.file.sort(key=lambda file: file.name)
    return found


def _protoc(*arguments: str) -> None:
    # In a process of its own: beside TensorFlow, which has a protobuf too, it crashes.
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={ROOT}"]
    command.append(f"--proto_path={ROOT / 'serving' / 'protos'}")
    subprocess.run([*command, *arguments, *PROTOS], check=True, cwd=ROOT)


if __name__ == "__main__":
    generate(ROOT)
