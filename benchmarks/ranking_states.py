"""The latency of a ranking model with and without the encoded histories of its users.

256 candidates in each request, over gRPC from the same process; users come by turns. `new` requests
have one more event each, `same` ones the history of the request before, as the next page has. The
model is DIN with random weights: attention with two heads to a history that a causal rotary
Transformer of two blocks has encoded. `python -m benchmarks.ranking_states --help` has the options.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import tensorflow as tf
from rich.console import Console
from rich.table import Table

from benchmarks.user_states import ITEMS, free_port, hits_of, items
from pipelines.common.artifacts import MANIFEST, write_json
from pipelines.export.file_list import FILES, list_files
from pipelines.export.rank_states import RankStates
from pipelines.export.serving_module import ServingModule
from pipelines.export.signatures import add_views, name_histories, views
from pipelines.features import FittedFeatures
from pipelines.features.vocabulary import VocabularyTransform
from recsys_attn.models import din
from recsys_attn.schema import RESERVED_IDS, Categorical, Schema, Sequence, Task
from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server

NAME, CANDIDATES, USERS = "ranking", 256, 2
ENCODER = {
    "name": {"class_name": "transformer", "config": {"pattern": "causal"}},
    "positions": "rotary",
    "num_layers": 2,
    "num_heads": 2,
    "head_dim": 32,
}
TARGET = {"name": "transformer", "num_heads": 2, "head_dim": 32}


def write_model(folder: Path, length: int) -> float:
    """Exports the model for histories of this length, without checks; returns MB of a state."""
    size = ITEMS + RESERVED_IDS
    item = Categorical("item", size=size)
    seen = Sequence("seen", shares="item", size=size, max_length=length)
    schema = Schema((item, seen), (Task("click"),))
    names = pa.array([f"item-{n}" for n in range(ITEMS)])
    fitted = FittedFeatures(schema, {"item": VocabularyTransform(names)})
    keras.utils.set_random_seed(0)
    model = din(schema, width=64, mlp_units=(64,), encoder=ENCODER, target_attention=TARGET)
    module = ServingModule(model, fitted)
    states = RankStates(model, module)
    signatures = module.signatures() | states.signatures()
    path = folder / NAME / "1"
    tf.saved_model.save(module, str(path), signatures=signatures)
    add_views(path, views(schema))
    name_histories(path, schema)
    manifest = {"format": 1, "schema": schema.to_dict(), "stateful": True}
    manifest |= {"state": states.description, FILES: list_files(path)}
    write_json(path / MANIFEST, manifest)
    (state,) = (
        s for n, s in signatures["step"].structured_input_signature[1].items() if n == "state"
    )
    return 4 * int(state.shape[1]) / 1e6


def measure(client: Client, events: int, rounds: int, states: str) -> np.ndarray:
    """Returns the milliseconds of `rounds` requests of each user, after a first one."""
    histories, candidates = items(USERS, events + rounds), items(1, CANDIDATES)
    times = []
    for n in range(rounds + 1):
        for user in range(USERS):
            seen = events if states == "same" else events + n
            inputs: dict[str, Any] = {"seen": histories[user : user + 1, :seen]}
            inputs["item"] = candidates
            if states != "off":
                inputs["user"] = np.array([f"{states} {user}".encode()], object)
            started = time.perf_counter()
            client.predict(inputs, signature_name="rank")
            if n:
                times.append(1000 * (time.perf_counter() - started))
    return np.array(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[100, 1000, 8000])
    parser.add_argument("--rounds", type=int, default=10, help="Requests of each user.")
    options = parser.parse_args()
    table = Table("events", "states", "median ms", "largest ms", "hits", "MB for each user")
    for events in options.events:
        with tempfile.TemporaryDirectory() as place:
            megabytes = write_model(Path(place), events + options.rounds)
            monitoring = Path(place) / "monitoring.config"
            monitoring.write_text("prometheus_config { enable: true }", "utf-8")
            config = ServerConfig(
                f"{place}/{NAME}",
                port=0,
                rest_api_port=free_port(),
                monitoring_config_file=str(monitoring),
                user_states=2 * USERS,
            )
            server, port = create_server(config)
            server.start()
            with Client(f"localhost:{port}", timeout=600) as client:
                for states in ("off", "new", "same"):
                    measure(client, events, 1, states)  # other histories: warms up
                    before = hits_of(config.rest_api_port)
                    times = measure(client, events, options.rounds, states)
                    hits = (hits_of(config.rest_api_port) - before) / len(times)
                    numbers = [f"{np.median(times):.1f}", f"{times.max():.1f}", f"{hits:.0%}"]
                    size = f"{megabytes:.2f}" if states != "off" else ""
                    table.add_row(f"{events:,}", states, *numbers, size)
            server.stop()
    Console().print(table)


if __name__ == "__main__":
    main()
