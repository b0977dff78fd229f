"""The latency of a next-item model with and without the states of its users.

Users come by turns, each with one more event, over gRPC from the same process. Without states the
whole history is computed for each request. The first request of a user is a miss. The model is a
SASRec with random weights. `python -m benchmarks.user_states --help` has the options.
"""

from __future__ import annotations

import argparse
import re
import socket
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from pipelines.common.artifacts import MANIFEST, write_json
from pipelines.features import FittedFeatures
from pipelines.features.vocabulary import VocabularyTransform
from pipelines.pretraining.export_next_items import export_next_items
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import sasrec
from recsys_attn.schema import RESERVED_IDS, Schema, Sequence
from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server

NAME, ITEMS, CANDIDATES, USERS = "next", 10_000, 100, 4
RNG = np.random.default_rng(0)


def write_model(folder: Path, length: int) -> None:
    """Exports a rotary SASRec of width 64 and two blocks for histories of this length."""
    names = [f"item-{n}" for n in range(ITEMS)]
    item = Sequence("item", size=ITEMS + RESERVED_IDS, dtype="string", max_length=length)
    fitted = FittedFeatures(Schema((item,), ()), {"item": VocabularyTransform(pa.array(names))})
    keras.utils.set_random_seed(0)
    model = sasrec(fitted.schema, width=64, num_layers=2, positions="rotary")
    pq.write_table(pa.table({"item": [names[:5]]}), folder / "sample.parquet")
    path = folder / NAME / "1"
    path.mkdir(parents=True)
    sample = DataSplit(folder / "sample.parquet")
    manifest = export_next_items(path, NAME, 1, model, fitted, sample, 100, False)
    write_json(path / MANIFEST, manifest)


def items(*shape: int) -> np.ndarray:
    """Returns names of random items."""
    return np.char.mod("item-%d", RNG.integers(0, ITEMS, shape)).astype(bytes).astype(object)


def free_port() -> int:
    """Returns a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure(client: Client, events: int, rounds: int, with_states: bool) -> np.ndarray:
    """Returns the milliseconds of `rounds` requests of each user."""
    histories, candidates = items(USERS, events + rounds), items(1, CANDIDATES)
    times = []
    for n in range(rounds):
        for user in range(USERS):
            inputs: dict[str, Any] = {
                "item": histories[user : user + 1, : events + n],
                "candidate": candidates,
            }
            if with_states:
                inputs["user"] = np.array([f"user-{user}".encode()], object)
            started = time.perf_counter()
            client.predict(inputs, signature_name="rank")
            times.append(1000 * (time.perf_counter() - started))
    return np.array(times)


def hits_of(port: int) -> int:
    """Returns how many requests had a known state so far, by the server's metrics."""
    url = f"http://localhost:{port}/monitoring/prometheus/metrics"
    with urllib.request.urlopen(url) as answer:
        match = re.search(r'user_state_count_total\{.*result="hit"\} (\S+)', answer.read().decode())
    return 0 if match is None else int(float(match[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[100, 1000, 8000])
    parser.add_argument("--rounds", type=int, default=25, help="Requests of each user.")
    options = parser.parse_args()
    table = Table("events", "states", "median ms", "p99 ms", "hits", "MB for each user")
    for events in options.events:
        with tempfile.TemporaryDirectory() as place:
            write_model(Path(place), events + options.rounds)
            monitoring = Path(place) / "monitoring.config"
            monitoring.write_text("prometheus_config { enable: true }", "utf-8")
            config = ServerConfig(
                f"{place}/{NAME}",
                port=0,
                rest_api_port=free_port(),
                monitoring_config_file=str(monitoring),
                user_states=USERS,
            )
            server, port = create_server(config)
            server.start()
            with Client(f"localhost:{port}", timeout=600) as client:
                shape = client.metadata().signature("step").inputs["state"].shape or ()
                megabytes = 4 * (shape[1] or 0) / 1e6
                for with_states in (False, True):
                    measure(client, events, 2, with_states)  # other histories: warms up
                    before = hits_of(config.rest_api_port)
                    times = measure(client, events, options.rounds, with_states)
                    hits = (hits_of(config.rest_api_port) - before) / len(times)
                    median, late = np.quantile(times, [0.5, 0.99])
                    numbers = [f"{median:.1f}", f"{late:.1f}", f"{hits:.0%}"]
                    size = f"{megabytes:.2f}" if with_states else ""
                    table.add_row(f"{events:,}", "on" if with_states else "off", *numbers, size)
            server.stop()
    Console().print(table)


if __name__ == "__main__":
    main()
