"""Seconds from the start of `recsys-attn serve` until it listens, and until its model serves.

Also the processor time until then, which depends less on what else the machine does. Without
`--model-base-path` the model is the AutoInt of `benchmarks.reload`.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rich.console import Console
from rich.table import Table

from benchmarks.reload import NAME, write_model
from tests.serving.commands import COMMAND, free_port

SERVING = health_pb2.HealthCheckResponse.SERVING


def measure(base_path: Path, options: list[str]) -> tuple[float, float, float]:
    """Seconds until the port is open, until SERVING, and of the processor."""
    port, started = free_port(), time.perf_counter()
    arguments = ["--model-base-path", str(base_path), "--port", str(port), *options]
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip

        def seconds_until(is_so: Callable[[], bool]) -> float:
            while not is_so():
                if process.poll() is not None:
                    raise SystemExit(f"The server ended with status {process.returncode}.")
                time.sleep(0.02)
            return time.perf_counter() - started

        opened = seconds_until(lambda: _is_open(port))
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            ready = seconds_until(lambda: _serves(stub))
        used = Path(f"/proc/{process.pid}/stat").read_text("utf-8").split()[13:15]
        process.kill()
    return opened, ready, sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _serves(stub: health_pb2_grpc.HealthStub) -> bool:
    try:
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
    except grpc.RpcError:
        return False
    return answer.status == SERVING


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-base-path", type=Path, help="an exported model")
    parser.add_argument("--starts", type=int, default=3, help="the median of so many")
    parser.add_argument("serve", nargs="*", help="after --: options of the server")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base_path = options.model_base_path
        if base_path is None:
            write_model(Path(folder))
            base_path = Path(folder) / NAME
            base_path.mkdir()
            (Path(folder) / "export").rename(base_path / "1")
        times = [measure(base_path, options.serve) for _ in range(options.starts)]
    table = Table("s until it listens", "s until it serves", "s of the processor")
    table.add_row(*(f"{seconds:.2f}" for seconds in np.median(times, axis=0)))
    Console().print(table)


if __name__ == "__main__":
    main()
