"""Python calls and files of three trips through the code: how far a reader goes.

    python benchmarks/trips.py

A call is one of a function of the package that a trip belongs to; those of Keras and TensorFlow do
not count. A first step of training is traced, a later one runs the graph. Another revision of the
code is counted with its folder as the PYTHONPATH.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import keras
import numpy as np
from rich.console import Console
from rich.table import Table

from pipelines.cli import commands
from recsys_attn.attention import MultiHeadAttention
from recsys_attn.attention.mechanisms import Dense
from recsys_attn.interactions import TargetAttention
from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server
from tests.support import shop
from tests.support.experiments import write
from tests.support.exports import write_shop_export

ROOT = Path(commands.__file__).parents[2]
STEPS = ("step.py", "replica_step.py")


class Calls:
    """Counts the calls by file, of all threads that profile with it, while it is `on`."""

    def __init__(self, packages: tuple[str, ...], without: str = "/client/") -> None:
        self.on = False
        self.files: Counter[str] = Counter()
        self._folders = tuple(f"{ROOT / package}/" for package in packages)
        self._without = without

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if self.on and event == "call":
            name = frame.f_code.co_filename
            if name.startswith(self._folders) and self._without not in name:
                self.files[name] += 1

    def during(self, run: Callable[[], object]) -> Counter[str]:
        """The calls of this thread while a function runs."""
        self.files = Counter()
        self.on = True
        sys.setprofile(self)
        run()
        sys.setprofile(None)
        self.on = False
        return self.files


def training_steps(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """The calls of the first and of the second step of a small training."""
    calls, steps, step = Calls(("pipelines", "recsys_attn")), list[Counter[str]](), None

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal step
        code = frame.f_code
        if step is None and event == "call" and code.co_name == "__call__":
            path = Path(code.co_filename)
            if path.parent == ROOT / "pipelines/training" and path.name in STEPS:
                step, calls.files, calls.on = frame, Counter(), True
        calls(frame, event, argument)
        if frame is step and event == "return":
            steps.append(calls.files)
            step, calls.on = None, False

    experiment = write(folder, ("epochs = 2", "epochs = 1"))
    for command in ("ingest", "fit", "train"):
        sys.setprofile(profile if command == "train" else None)
        arguments = [command, str(experiment), "--run-dir", str(folder / "run")]
        commands.main(arguments, standalone_mode=False)
    sys.setprofile(None)
    return steps[0], steps[1]


def request(folder: Path) -> Counter[str]:
    """The calls of a Predict request of raw rows, in the process of the server."""
    write_shop_export(folder)
    calls = Calls(("serving",))
    threading.setprofile(calls)
    server, port = create_server(ServerConfig(str(folder), model_name="shop", port=0))
    server.start()
    names = [feature.name for feature in shop.SCHEMA.features]
    rows = shop.table(1, seed=12).select(names).to_pylist()
    with Client(f"localhost:{port}", timeout=60) as client:
        client.predict_rows(rows)
        counts = []
        for _ in range(3):
            calls.files, calls.on = Counter(), True
            client.predict_rows(rows)
            time.sleep(0.5)  # the observers see a request after its answer
            calls.on = False
            counts.append(calls.files)
    threading.setprofile(None)
    server.stop()
    return min(counts, key=Counter.total)  # without those of threads that poll


def layers() -> dict[str, Counter[str]]:
    """The calls of two layers, built before."""
    query, events = keras.random.normal((5, 3, 8)), keras.random.normal((5, 7, 8))
    mask, target, heads = (
        np.ones((5, 7), bool),
        TargetAttention(),
        MultiHeadAttention(2, 4, Dense()),
    )
    trips: dict[str, Callable[[], object]] = {
        "candidates through TargetAttention()": lambda: target(query, events, mask),
        "events through MultiHeadAttention(Dense())": lambda: heads(events, query_mask=mask),
    }
    for run in trips.values():
        run()
    return {name: Calls(("recsys_attn",)).during(run) for name, run in trips.items()}


def main() -> None:
    trips = layers()
    with tempfile.TemporaryDirectory() as folder:
        first, second = training_steps(Path(folder))
        trips |= {"a batch to the loss, first step": first, "a batch to the loss, later": second}
    with tempfile.TemporaryDirectory() as folder:
        trips["a request to the score"] = request(Path(folder))
    table = Table("trip", "files", "calls", box=None)
    for name, files in trips.items():
        table.add_row(name, str(len(files)), str(sum(files.values())))
    Console().print(table)


if __name__ == "__main__":
    main()
