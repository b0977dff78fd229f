"""A past that `ingest` knows, a log after it, and stores that follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from serving.state.following.dead_letters import DeadLetters
from serving.state.following.follower import Follower
from serving.state.following.open_log import open_log
from serving.state.keyed.keys import Key
from serving.state.online.load import check_loaded, load_state
from serving.state.online.writer import StateWriter
from serving.state.saved import SavedState
from serving.state.stores.open_store import open_store
from serving.state.stores.store import Store
from tests.serving.state.logs import arrivals, ingested

PAST = 41  # rows that `ingest` has read


@dataclass
class Following:
    """A store that follows a log.

    Attributes:
        saved: The state that it was loaded from.
        store: The store.
        log: Address of the log.
        letters: The file of the events that are not counted.
        reports: The sentences about files.
    """

    saved: SavedState
    store: Store
    log: str
    letters: Path
    reports: list[str]

    def follower(self, store: Store | None = None) -> Follower:
        """A follower as after a start of its process."""
        of, store = self.saved.definition, store or self.store
        writer = StateWriter(store, of)
        known = {g: loaded.files for g, loaded in check_loaded(store, self.saved, "").items()}
        log = open_log(self.log, of, store, writer, known, self.reports.append)
        return Follower(store, of, writer, log, DeadLetters(self.letters))

    def catch_up(self) -> Follower:
        """Follows the log to its end, in a new process."""
        follower = self.follower()
        follower.catch_up()
        return follower

    def blobs(self) -> dict[tuple[bytes, Key], bytes]:
        """The state of all keys."""
        return blobs(self.store, self.saved)


def blobs(store: Store, saved: SavedState) -> dict[tuple[bytes, Key], bytes]:
    """The state of all keys in a store."""
    return {
        (group.fingerprint, key): blob
        for group in saved.definition.groups
        for key, blob in store.cells(group.fingerprint)
    }


@pytest.fixture(scope="session")
def rows() -> pa.Table:
    """The log, with the rows of the past."""
    return arrivals(97)


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory, rows: pa.Table) -> SavedState:
    """What `ingest` knows."""
    return ingested(tmp_path_factory.mktemp("past") / "past", rows.slice(0, PAST))[1]


@pytest.fixture
def following(
    tmp_path: Path, saved: SavedState, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Following]]:
    """Makes stores that are loaded, and follow one folder: of LMDB, or as the parameter says."""
    is_redis = getattr(request, "param", "lmdb") == "redis"
    server = str(request.getfixturevalue("redis_url")) if is_redis else None
    stores: list[Store] = []
    (tmp_path / "log").mkdir()

    def make(
        name: str = "store",
        log: Any = tmp_path / "log",
        url: str | None = None,
        saved: SavedState = saved,
    ) -> Following:
        place = f"lmdb:{tmp_path / name}" if server is None else f"{server[:-1]}{len(stores)}"
        store = open_store(url or place)
        stores.append(store)
        load_state(saved, store)
        return Following(saved, store, str(log), tmp_path / f"{name}.jsonl", [])

    yield make
    for store in stores:
        store.close()


def write_files(folder: Path, rows: pa.Table, sizes: tuple[int, ...] = (7, 23, 11)) -> None:
    """Writes the rows after the past as files, in the order of their names."""
    first = PAST
    for number, size in enumerate((*sizes, rows.num_rows)):
        pq.write_table(rows.slice(first, size), folder / f"{number}.parquet", row_group_size=5)
        first += size
