"""Small event logs, their ingest, and a slow reference of the sequences."""

import io
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from pipelines.common.progress import Progress
from pipelines.ingest.events.event_options import EventOptions
from pipelines.ingest.events.ingest_events import ITEM_COUNTS, ingest_events
from pipelines.ingest.source import SPLITS
from tests.pipelines.ingest.files import read_split

NAMES = {"user": "who", "item": "film", "time": "at"}


def random_log(rows=499, users=61, items=23, times=97, seed=0):
    """Events with ties of time, users of few events, and missing users and items."""
    rng = np.random.default_rng(seed)
    user = np.minimum(rng.integers(users, size=rows), rng.integers(users, size=rows))
    item = np.minimum(rng.integers(items, size=rows), rng.integers(items, size=rows))
    return pa.table(
        {
            "who": pa.array([f"u{number}" for number in user], mask=rng.random(rows) < 0.03),
            "film": pa.array(item, mask=rng.random(rows) < 0.03),
            "at": rng.integers(times, size=rows),
            "visit": pa.array(rng.integers(5, size=rows), mask=rng.random(rows) < 0.1),
            "action": rng.choice(["view", "buy"], size=rows),
            "row": np.arange(rows),
        }
    )


def write(path: Path, table: pa.Table, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


def run(path: Path, out: Path, **options):
    """Ingests a file or folder; returns the summary."""
    given = EventOptions(path=str(path), **{**NAMES, **options})
    return ingest_events(given, out, Progress(Console(file=io.StringIO())))


def read(out: Path) -> dict[str, pa.Table]:
    return {split: read_split(out, split) for split in SPLITS}


def read_counts(out: Path) -> list[dict]:
    return pq.read_table(out / ITEM_COUNTS).to_pylist()


def sequences(table: pa.Table, **options) -> dict[str, dict[str, dict]]:
    """What the definition says, user by user: rows by split and user."""
    given = EventOptions(path="-", **{**NAMES, **options})
    events = [e for e in table.to_pylist() if e["who"] is not None and e["film"] is not None]
    of_item = Counter(event["film"] for event in events)
    by_user: dict[str, list[dict]] = {}
    for event in events:
        if of_item[event["film"]] >= given.min_item_events:
            by_user.setdefault(event["who"], []).append(event)
    found: dict[str, dict[str, dict]] = {split: {} for split in SPLITS}
    for user, unsorted in by_user.items():
        if len(unsorted) >= given.min_user_events:
            own = sorted(unsorted, key=lambda event: event["at"])
            for split, kept in _splits(own, given).items():
                found[split][user] = _row(user, kept, given)
    return found


def _splits(own: list[dict], options: EventOptions) -> dict[str, list[dict]]:
    if options.split.by == "last":
        if len(own) < 3:
            return {"train": own}
        return {"train": own[:-2], "valid": own[:-1], "test": own}
    first, second = options.split.valid_from, options.split.test_from
    train = [event for event in own if event["at"] < first]
    found = {"train": train} if len(train) >= 2 else {}
    for split, begin, end in (("valid", first, second), ("test", second, np.inf)):
        before = [event for event in own if event["at"] < begin]
        targets = [event for event in own if begin <= event["at"] < end]
        if before and targets:
            found[split] = [*before, targets[0]]
    return found


def _row(user: str, kept: list[dict], options: EventOptions) -> dict:
    times = [event["at"] for event in kept]
    row = {
        "who": user,
        "film": [event["film"] for event in kept],
        "age": [times[-1] - time for time in times],
    }
    if options.session is not None:
        order = list(dict.fromkeys(event[options.session] for event in kept))
        row["session"] = [order.index(event[options.session]) for event in kept]
    if options.session_gap is not None:
        new = [later - time >= options.session_gap for time, later in pairwise(times)]
        row["session"] = [sum(new[:place]) for place in range(len(times))]
    return row | {name: [event[name] for event in kept] for name in options.columns}
