"""Requests of 25 candidates beside the same rows one by one, in our engine: rows a second.

    python -m benchmarks.peers.ours_in_requests SETTINGS

Both are batches of the same rows and take turns in one process; the first looks a request's
history up, and encodes it, once.
"""

from __future__ import annotations

import importlib
import json
import sys
import time

import keras
import numpy as np

from benchmarks.peers.contender import Contender
from benchmarks.peers.data import Batch, load
from benchmarks.peers.settings import Settings

CANDIDATES = 25
WAYS = ("one by one", "requests")


def requests(rows: Batch, count: int) -> dict[str, Batch]:
    """The same rows in both ways; candidates and labels of the data, each with another history."""
    if rows.context is None:
        raise ValueError("Requests share a history. Received: rows without one")
    context, rows = rows.context[:count], rows[: count * CANDIDATES]
    shape = count, CANDIDATES, -1
    return {
        "one by one": Batch(np.repeat(context, CANDIDATES, axis=0), rows.candidate, rows.labels),
        "requests": Batch(context, rows.candidate.reshape(shape), rows.labels.reshape(shape)),
    }


def measure(
    contender: Contender, ways: dict[str, Batch], warm_up: int, steps: int
) -> dict[str, float]:
    """Rows a second of both, from the medians."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(warm_up + steps):
        for way, batch in ways.items():
            begin = time.perf_counter()
            contender.step(batch)
            seconds[way].append(time.perf_counter() - begin)
    return {
        way: ways[way].labels[..., 0].size / float(np.median(times[warm_up:]))
        for way, times in seconds.items()
    }


def main() -> None:
    """Prints one line of JSON; the settings' batch counts requests."""
    settings = Settings(**json.loads(sys.argv[1]))
    jax = keras.backend.backend() == "jax"
    module = importlib.import_module(f"benchmarks.peers.{'ours_on_jax' if jax else 'ours'}")
    contender = (module.OursOnJax if jax else module.Ours)(settings)
    ways = requests(load(settings, "train"), settings.batch)
    print(json.dumps(measure(contender, ways, settings.warm_up, settings.steps)))


if __name__ == "__main__":
    main()
