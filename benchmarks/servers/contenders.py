"""The servers: ours, with and without batching, and the plain one beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from benchmarks.servers.channel import Send, sender
from benchmarks.servers.load import Load, call
from benchmarks.servers.processes import Process, free_address

OURS, BATCHING, PLAIN = "ours", "ours, batching", "plain"
_CONNECTIONS = 8
_CONFIG = "models.config"
_NOT_YET = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@dataclass(frozen=True)
class Contender:
    """A server that runs.

    Attributes:
        name: In the tables.
        address: Its address.
        way: Of the requests that it is sent, `rank` or `tiled`.
        process: What answers.
        senders: Connections to it.
    """

    name: str
    address: str
    way: str
    process: Process
    senders: Sequence[Send]

    def requests(self, folder: Path) -> list[bytes]:
        """Returns its requests."""
        return [path.read_bytes() for path in sorted(folder.glob(f"{self.way}-*"))]

    def wait(self, request: bytes) -> None:
        """Returns when it answers."""
        while True:
            self.process.require_running()
            try:
                self.senders[0](request)
                return
            except grpc.RpcError as error:
                if error.code() not in _NOT_YET:
                    raise

    def turn(self, requests: Sequence[bytes], callers: int, seconds: float) -> Load:
        """What callers see of it."""
        before = self.process.processor_seconds()
        load = call(self.senders, requests, callers, seconds)
        load.processor = self.process.processor_seconds() - before
        return load


@contextlib.contextmanager
def running(folder: Path, batching: Sequence[bool]) -> Iterator[list[Contender]]:
    """All servers, started and ended; they answer when their `wait` returns."""
    with contextlib.ExitStack() as stack:
        contenders = []
        for is_batching in batching:
            address = free_address()
            process = Process(
                "pipelines",
                *_serve(folder, address, is_batching),
                log=folder / f"ours-{is_batching}.log",
            )
            stack.callback(process.stop)
            contenders.append(
                _contender(BATCHING if is_batching else OURS, "rank", process, address)
            )
        address = free_address()
        process = Process(
            "benchmarks.servers.plain", str(folder / "models"), address, log=folder / "plain.log"
        )
        stack.callback(process.stop)
        yield [*contenders, _contender(PLAIN, "tiled", process, address)]


def _contender(name: str, way: str, process: Process, address: str) -> Contender:
    return Contender(name, address, way, process, [sender(address) for _ in range(_CONNECTIONS)])


def _serve(folder: Path, address: str, is_batching: bool) -> list[str]:
    """The command of a server of all models."""
    models = "".join(
        f"config {{ name: '{path.name}' base_path: '{path}' }}\n"
        for path in sorted((folder / "models").iterdir())
    )
    config = folder / _CONFIG
    config.write_text(f"model_config_list {{\n{models}}}\n", encoding="utf-8")
    command = ["serve", "--model-config-file", str(config), "--port", address.rpartition(":")[2]]
    return [*command, "--enable-batching"] if is_batching else command
