"""Several writers and several definitions share a store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from serving.state.definitions.definition import StateDefinition
from serving.state.keyed.keys import Key
from serving.state.online.group_batch import Places
from serving.state.online.reader import StateReader
from serving.state.online.writer import StateWriter
from serving.state.stores.store import Store
from tests.serving.state.logs import arrivals, read_values, small_definition


def keys(store: Store, of: StateDefinition) -> set[tuple[bytes, Key]]:
    return {
        (group.fingerprint, key) for group in of.groups for key, _ in store.cells(group.fingerprint)
    }


def test_two_writers_count_each_event_once(store: Store) -> None:
    of = small_definition(late=None, histories=())  # whose ties are in the order of arrival
    log = arrivals(seed=3).select(of.columns.names)
    log = log.filter(pa.compute.is_valid(log["id"]))
    rows = range(0, log.num_rows, 7)

    def write(seed: int) -> None:
        """Writes the whole log in parts, in an order of its own."""
        writer = StateWriter(store, of)
        order = np.random.default_rng(seed).permutation(rows)
        for row in order:
            writer.add(log.slice(row, 7))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(write, range(3)))
    together = read_values(store, of)
    alone = small_definition(late=1000.0, histories=())  # of other fingerprints
    StateWriter(store, alone).add(log)
    np.testing.assert_equal(together, read_values(store, alone))


def test_writers_of_two_logs_do_not_lose_rows(store: Store) -> None:
    of = small_definition(late=None, event_id=None, histories=())
    log = arrivals(seed=4).select(of.columns.names)
    parts = [log.slice(0, 57), log.slice(57)]

    def write(number: int) -> None:
        writer, part = StateWriter(store, of), parts[number]
        for row in range(0, part.num_rows, 5):
            for _ in range(2):  # as after a restart
                rows = part.slice(row, 5)
                writer.add(rows, Places.of(number, row, rows.num_rows))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, range(2)))
    together = read_values(store, of)
    alone = small_definition(late=1000.0, event_id=None, histories=())
    StateWriter(store, alone).add(log, Places.of(2, 0, log.num_rows))
    np.testing.assert_equal(together, read_values(store, alone))


def test_equal_definitions_share_and_others_do_not(store: Store) -> None:
    log = arrivals()
    one = small_definition()
    renamed = [history.model_copy(update={"name": "renamed"}) for history in one.histories]
    equal = small_definition(histories=(*renamed,))
    windowed = [rate.model_copy(update={"window": 5.0}) for rate in one.aggregates]
    other = small_definition(aggregates=(*windowed,))
    StateWriter(store, one).add(log.select(one.columns.names), Places.of(1, 0, log.num_rows))
    assert keys(store, equal) == keys(store, one)
    assert {key for _, key in keys(store, other)} == {()}  # the prior of all rates
    before = read_values(store, one)
    StateWriter(store, other).add(log.select(other.columns.names), Places.of(1, 0, log.num_rows))
    np.testing.assert_equal(read_values(store, one), before)
    of_users = StateReader(store, equal).values({"user": "3"}, {"item": [1]}, 99).context
    assert of_users["renamed"] == before[3]["liked"]
