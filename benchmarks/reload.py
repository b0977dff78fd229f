"""What callers notice while a server takes up a new version every few seconds.

An AutoInt with random weights is exported by the project's own code; every version is a copy of
it under the next number. Callers come at a fixed rate whether they are answered or not, and a
request's time counts from when it was due. `python -m benchmarks.reload --help` has the options.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from rich.console import Console
from rich.table import Table
from tensorflow_serving.apis import predict_pb2

from pipelines.common.artifacts import MANIFEST, write_json
from pipelines.experiment.config import ExportOptions
from pipelines.export.export import export
from pipelines.features.fit import fit
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import autoint
from recsys_attn.schema import Categorical, Feature, Numeric, Schema, Task

NAME = "ctr"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
ROWS = 50_000  # that the vocabularies are fitted on
CATEGORICAL, NUMERIC = 26, 13
KEPT = 3  # versions on disk
MINUTE = 60.0
RNG = np.random.default_rng(0)


def write_model(folder: Path) -> dict[str, np.ndarray]:
    """Exports a model of the sizes of Criteo's; returns raw rows to ask it with."""
    columns: dict[str, np.ndarray] = {
        f"c{i}": np.char.mod("%08x", (RNG.zipf(1.3, ROWS) - 1) % 10 ** (1 + i % 5))
        for i in range(CATEGORICAL)
    }
    columns |= {f"n{i}": RNG.lognormal(0, 1, ROWS).astype("float32") for i in range(NUMERIC)}
    table = pa.table({**columns, "click": (RNG.random(ROWS) < 0.2).astype("int8")})
    pq.write_table(table, folder / "rows.parquet")
    features: list[Feature] = [
        *(Categorical(f"c{i}") for i in range(CATEGORICAL)),
        *(Numeric(f"n{i}", transform=("log1p", "standardise")) for i in range(NUMERIC)),
    ]
    schema = Schema(tuple(features), (Task("click"),))
    sample = DataSplit(folder / "rows.parquet")
    fitted = fit(schema, sample.batches([feature.name for feature in features]))
    model = autoint(fitted.schema, interaction={"num_layers": 2})
    options = ExportOptions(parity_rows=100, warmup_requests=20)
    exported = folder / "export"
    manifest = export(exported, NAME, 1, model, fitted, None, sample, options)
    write_json(exported / MANIFEST, manifest)
    return columns


def request_of(columns: dict[str, np.ndarray], rows: int) -> bytes:
    """A request for the first rows."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = NAME
    for name, values in columns.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values[:rows]))
    return request.SerializeToString()


@dataclass
class Heard:
    """What the callers of some time were answered: milliseconds, versions, failures."""

    times: list[float] = field(default_factory=list)
    versions: set[int] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)


class Callers:
    """Calls at a fixed rate, whether the calls before are answered or not.

    Args:
        channel: To the server.
        request: What they send.
        rate: Requests a second.
    """

    def __init__(self, channel: grpc.Channel, request: bytes, rate: float) -> None:
        self._predict = channel.unary_unary(
            PREDICT, response_deserializer=predict_pb2.PredictResponse.FromString
        )
        self._request = request
        self._rate = rate

    def call_for(self, seconds: float) -> Heard:
        """Returns the answers of that time."""
        heard = Heard()
        start = time.perf_counter()
        calls = []
        for i in range(round(seconds * self._rate)):
            due = start + i / self._rate
            time.sleep(max(0.0, due - time.perf_counter()))
            call = self._predict.future(self._request, timeout=10.0)
            call.add_done_callback(lambda done, due=due: self._hear(heard, done, due))
            calls.append(call)
        for call in calls:
            call.exception()
        return heard

    @staticmethod
    def _hear(heard: Heard, done: grpc.Future, due: float) -> None:
        heard.times.append(1e3 * (time.perf_counter() - due))
        error = done.exception()
        if error is None:
            heard.versions.add(done.result().model_spec.version.value)
        else:
            heard.failures.append(f"{error.code().name}: {error.details()}")


class Versions:
    """Copies of the export under rising numbers, the last few of which are kept."""

    def __init__(self, exported: Path, base_path: Path) -> None:
        self._exported, self._base_path = exported, base_path
        self._number = 0

    def add(self) -> None:
        self._number += 1
        draft = self._base_path.parent / f"draft-{self._number}"
        shutil.copytree(self._exported, draft)
        draft.rename(self._base_path / str(self._number))
        shutil.rmtree(self._base_path / str(self._number - KEPT), ignore_errors=True)


@contextmanager
def served(base_path: Path, log: Path, options: list[str]) -> Iterator[tuple[str, int]]:
    """The command `serve` as a process: its address and its id."""
    command = [
        sys.executable, "-c", "from serving.cli import serve; serve()", "--model-base-path",
        str(base_path), "--port", "0", "--file-system-poll-wait-seconds", "0.5", *options,
    ]  # fmt: skip
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            for line in process.stdout or ():
                if line.startswith("Listening on "):
                    yield line.split()[2], process.pid
                    break
        finally:
            process.terminate()


def resident_mb(pid: int) -> float:
    """Memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def measure(options: argparse.Namespace, folder: Path) -> tuple[Heard, Heard, dict[str, float]]:
    """Returns the answers without and with reloads, and the server's memory in MB by time."""
    columns = write_model(folder)
    base_path = folder / NAME
    base_path.mkdir()
    versions = Versions(folder / "export", base_path)
    versions.add()
    with (
        served(base_path, folder / "log", options.serve) as (address, pid),
        grpc.insecure_channel(address) as channel,
    ):
        callers = Callers(channel, request_of(columns, options.rows), options.rate)
        gc.disable()  # with TensorFlow imported it would hold up the callers for half a second
        callers.call_for(5.0)
        quiet = callers.call_for(options.quiet)
        memory = {"before the reloads": resident_mb(pid)}
        ended = threading.Event()

        def remember() -> None:
            memory["after a minute of them"] = resident_mb(pid)

        def reload() -> None:
            while not ended.wait(options.every):
                versions.add()

        timer = threading.Timer(MINUTE, remember)
        threads = [threading.Thread(target=reload), timer]
        for thread in threads:
            thread.start()
        heard = callers.call_for(MINUTE * options.minutes)
        ended.set()
        timer.cancel()
        for thread in threads:
            thread.join()
        return quiet, heard, {**memory, "at the end": resident_mb(pid)}


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description="What callers notice of new versions.")
    parser.add_argument("--minutes", type=float, default=2.0, help="with reloads")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between versions")
    parser.add_argument("--quiet", type=float, default=60.0, help="seconds before them")
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    parser.add_argument("--rows", type=int, default=20, help="rows of a request")
    parser.add_argument("serve", nargs="*", help="after --: options of the server")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        quiet, heard, memory = measure(options, Path(folder))
    table = Table(
        title=f"{options.rate:g} requests a second of {options.rows} rows, a version every "
        f"{options.every:g} s",
        box=None,
        title_justify="left",
    )
    for column in ("", "requests", "failed", "versions", "p50 ms", "p99 ms", "p99.9 ms", "max ms"):
        table.add_column(column, justify="right" if column else "left")
    for name, one in (("quiet", quiet), ("reloads", heard)):
        numbers = [*np.percentile(one.times, [50, 99, 99.9]), max(one.times)]
        counts = [len(one.times), len(one.failures), len(one.versions)]
        table.add_row(name, *map(str, counts), *(f"{number:.1f}" for number in numbers))
    console = Console(width=110)
    console.print(table)
    text = ", ".join(f"{megabytes:.0f} MB {when}" for when, megabytes in memory.items())
    console.print(f"Resident memory: {text}")
    for failure in sorted(set(heard.failures + quiet.failures)):
        console.print(failure)


if __name__ == "__main__":
    main()
