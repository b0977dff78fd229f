"""Static features of users and items: loaded, pushed and read, to the bit."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from serving.state.columns.missing import MISSING_INT
from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.static_features import StaticFeatures
from serving.state.errors import DataError
from serving.state.keyed.keys import key_bytes
from serving.state.keyed.profiles import decode_profiles, encode_profiles, profile_times
from serving.state.online.describe import key_summary
from serving.state.online.load import load_state
from serving.state.online.reader import StateReader
from serving.state.online.writer import StateWriter
from serving.state.saved import SavedState, SavedWriter
from serving.state.stores.lmdb_store import LmdbStore
from serving.state.stores.store import Cell, Change, Store
from tests.serving.state.logs import arrivals, definition

COLUMNS = pa.schema(
    {
        "user": pa.string(),
        "country": pa.string(),
        "since": pa.int64(),
        "age": pa.float32(),
        "brands": pa.list_(pa.string()),
        "sizes": pa.list_(pa.float32()),
    }
)
USERS = StaticFeatures("user", "user", COLUMNS)
UNKNOWN = {"country": "", "since": MISSING_INT, "age": np.float32("nan"), "brands": [], "sizes": []}
ANN = {
    "user": "ann",
    "country": 'näh"\n\u2028 😀',
    "since": 2**62 + 1,
    "age": float(np.float32(0.1)),
    "brands": ["a", "", None],
    "sizes": [float(np.float32(1e-42)), None],
}
OF_ANN = {name: value for name, value in ANN.items() if name != "user"}
NOBODY = {**dict.fromkeys(COLUMNS.names), "user": "bob"}
ALONE = StateDefinition((), (), pa.schema([]), static=(USERS,))
OF_ITEMS = pa.schema({"item": pa.int64(), "price": pa.float32(), "tags": pa.list_(pa.string())})
ITEMS = StaticFeatures("item", "item", OF_ITEMS)
BOTH = StateDefinition((), (), pa.schema([]), static=(USERS, ITEMS))


def read(store: Store, user: Any, of: StateDefinition = ALONE) -> dict[str, Any]:
    return dict(StateReader(store, of).values({"user": user}, {}).context)


def blob_of(store: Store, user: str) -> bytes | None:
    return store.read([Cell(USERS.fingerprint, (key_bytes(user, "string"),))])[0]


def test_values_are_those_that_were_written(store: Store, tmp_path: Path) -> None:
    of = StateDefinition((), (), pa.schema([]), static=(USERS,))
    with SavedWriter(tmp_path / "state", of, None) as writer:
        writer.write_profiles(USERS, pa.Table.from_pylist([ANN, NOBODY], COLUMNS), 7)
    saved = SavedState.open(tmp_path / "state")
    assert saved.definition == of
    assert load_state(saved, store) == saved.keys(USERS) == 2
    loaded = blob_of(store, "ann")
    np.testing.assert_equal(read(store, "ann"), OF_ANN)
    assert type(read(store, "ann")["age"]) is np.float32
    for user in ("bob", "new", None, ""):
        np.testing.assert_equal(read(store, user), UNKNOWN)
    StateWriter(store, of).push_profiles("user", [ANN])  # equal, but for the time
    pushed = blob_of(store, "ann")
    assert loaded is not None
    assert pushed is not None
    assert loaded[8:16] == (7).to_bytes(8, "little")
    assert abs(profile_times([pushed]) - time.time_ns() // 1000) < 600e6
    assert loaded[16:] == pushed[16:]


def test_push_replaces_all_features_of_a_user(store: Store) -> None:
    writer = StateWriter(store, ALONE)
    writer.push_profiles("user", [ANN, {**NOBODY, "country": "x"}, {**NOBODY, "age": 3}])
    np.testing.assert_equal(read(store, "bob"), {**UNKNOWN, "age": np.float32(3)})
    writer.push_profiles("user", [{**ANN, "age": np.nan, "brands": [], "more": 1}])
    np.testing.assert_equal(read(store, "ann"), {**OF_ANN, "age": np.float32("nan"), "brands": []})


def test_items_and_user_are_one_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = StateWriter(store, BOTH)
    writer.push_profiles("user", [ANN])
    tags = {3: ["a", "näh"], 5: ["b", "c"], 7: None}
    writer.push_profiles("item", [{"item": i, "price": i / 10, "tags": tags[i]} for i in tags])
    reads: list[int] = []
    read_cells = store.read
    monkeypatch.setattr(store, "read", lambda cells: reads.append(len(cells)) or read_cells(cells))
    reader = StateReader(store, BOTH, keep_seconds=60)
    ids = [5, 3, MISSING_INT, 5, 11, 7]
    for user in ("ann", "bob"):
        values = reader.values({"user": user}, {"item": ids})
        assert values.context["since"] == (ANN["since"] if user == "ann" else MISSING_INT)
        prices = np.array([0.5, 0.3, np.nan, 0.5, np.nan, 0.7], np.float32)
        np.testing.assert_array_equal(values.candidates["price"], prices)
        assert values.candidates["tags"] == [tags[5], tags[3], [], tags[5], [], []]
    assert reads == [1 + 4, 1]  # users share the states of items
    alone = StateReader(store, BOTH).values({"user": None, "item": 3}, {})
    assert (alone.context["price"], alone.context["tags"]) == (np.float32(0.3), tags[3])
    assert StateReader(store, BOTH).values({"user": "ann"}, {"item": []}).candidates["tags"] == []


def test_newer_profile_remains(store: Store, tmp_path: Path) -> None:
    """A push is newer than the table that was written before, and older than a later one."""

    def load(name: str, written: int, country: str, force: bool = False) -> int:
        with SavedWriter(tmp_path / name, ALONE, None) as writer:
            people = [{**NOBODY, "user": user, "country": country} for user in ("ann", "bob")]
            writer.write_profiles(USERS, pa.Table.from_pylist(people, COLUMNS), written)
        return load_state(SavedState.open(tmp_path / name), store, force=force)

    def countries() -> list[str]:
        return [read(store, user)["country"] for user in ("ann", "bob")]

    now = time.time_ns() // 1000
    assert load("first", now - 60, "table") == 2
    StateWriter(store, ALONE).push_profiles("user", [{**NOBODY, "country": "pushed"}])
    assert load("first", now - 60, "table") == 0  # the same file
    assert load("other", now - 50, "other") == 1
    assert countries() == ["other", "pushed"]
    assert load("old", now - 70, "old") == 0
    assert load("next", now + 600_000_000, "next") == 2
    assert countries() == ["next", "next"]
    StateWriter(store, ALONE).push_profiles("user", [{**NOBODY, "country": "behind"}])
    assert countries() == ["next", "behind"]  # a push counts, whatever the clocks say
    assert load("last", now, "last", force=True) == 2
    assert countries() == ["last", "last"]


def test_an_operator_sees_the_features_of_a_user(store: Store) -> None:
    StateWriter(store, ALONE).push_profiles("user", [ANN])
    ann, new = (key_summary(store, ALONE, {"user": user}, None).features for user in ("ann", "new"))
    np.testing.assert_equal({one.name: one.value for one in ann}, OF_ANN)
    np.testing.assert_equal({one.name: one.value for one in new}, UNKNOWN)
    assert all(one.ages == [] and one.by == ("user",) for one in ann)
    assert all(one.ages is None for one in new)  # the store has no such key


def test_two_writers_lose_no_write(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, write, times = StateWriter(store, ALONE), store.write, list[int]()

    def counted(changes: Sequence[Change], notes: Mapping[bytes, bytes]) -> list[bool]:
        made = write(changes, notes)
        after = [change.after for change, done in zip(changes, made, strict=True) if done]
        times.extend(profile_times(after).tolist())
        return made

    monkeypatch.setattr(store, "write", counted)

    def push() -> None:
        for since in range(53):
            writer.push_profiles("user", [{**ANN, "since": since}])

    threads = [threading.Thread(target=push) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(store, "ann")["since"] == 52
    assert len(set(times)) == 2 * 53  # each is later than the one before it
    assert profile_times([blob_of(store, "ann")]).tolist() == [max(times)]


def test_features_over_time_are_beside_them(store: Store) -> None:
    """They change none of the groups' state, and are of one read."""
    plain = definition()
    of = StateDefinition(plain.aggregates, plain.histories, plain.columns, plain.late, "id",
                         static=(USERS,))  # fmt: skip
    assert [g.fingerprint for g in of.groups] == [g.fingerprint for g in plain.groups]
    writer = StateWriter(store, of)
    writer.add(arrivals(23).select(of.columns.names))
    writer.push_profiles("user", [{**ANN, "user": "3"}])
    request = {"user": "3"}, {"item": [1, 2]}, 99
    expected = StateReader(store, plain).values(*request)
    values = StateReader(store, of).values(*request)
    np.testing.assert_equal(values.context, {**expected.context, **OF_ANN})
    np.testing.assert_equal(values.candidates, expected.candidates)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": None}, "user 1: column 'user': expected the id of a user. Received: None"),
        ({"user": 7}, "column 'user': expected string"),
        ({"age": "old"}, "column 'age': expected float"),
        ({"age": np.inf}, "column 'age': expected finite numbers"),
        ({"sizes": [1.0, -np.inf]}, "column 'sizes': expected finite numbers"),
        ({"country": 3}, "column 'country': expected string"),
    ],
)
def test_invalid_profile_changes_nothing(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    store = LmdbStore(tmp_path / "store")
    with pytest.raises(DataError, match=message):
        StateWriter(store, ALONE).push_profiles("user", [ANN, {**NOBODY, **change}])
    assert blob_of(store, "ann") is None


def test_absent_columns_are_errors(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "store")
    with pytest.raises(DataError, match="user 0: the column 'country'"):
        StateWriter(store, ALONE).push_profiles("user", [{"user": "ann", "contry": "x"}])
    with pytest.raises(DataError, match=r"request: the column 'user' \(a key of the state\)"):
        StateReader(store, ALONE).values({}, {})
    with pytest.raises(DataError, match=r"no static features of users\. Declare `data\.users`"):
        StateWriter(store, definition()).push_profiles("user", [ANN])
    with pytest.raises(DataError, match=r"no static features of items\. Declare `data\.items`"):
        StateWriter(store, ALONE).push_profiles("item", [ANN])
    with pytest.raises(DataError, match="no features over time, so it counts no events"):
        StateWriter(store, ALONE).push([{"user": "ann"}])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda blob: blob[:9], "it has 9 bytes"),
        (lambda blob: b"\2" + blob[1:], "expected format 1, received 2"),
        (lambda blob: blob[:-3], "cannot be read: .*state load"),
        (lambda blob: blob[:16] + b"[1]", "cannot be read: .*shorter"),
        (lambda blob: blob[:16] + b"\xff\xff", "cannot be read: "),
    ],
)
def test_damaged_profile_is_an_error(damage: Any, message: str) -> None:
    (blob,) = encode_profiles(USERS, pa.Table.from_pylist([ANN], COLUMNS), [1])
    with pytest.raises(DataError, match=message):
        decode_profiles(USERS, [blob, damage(blob)])


def test_fingerprints_differ_by_names_and_types() -> None:
    other = [
        StaticFeatures("item", "user", COLUMNS),
        StaticFeatures("user", "country", COLUMNS),
        StaticFeatures("user", "user", COLUMNS.set(3, pa.field("age", pa.int64()))),
        StaticFeatures("user", "user", COLUMNS.remove(4)),
    ]
    assert len({USERS.fingerprint, *(of.fingerprint for of in other)}) == 1 + len(other)
    assert StaticFeatures("user", "user", COLUMNS).fingerprint == USERS.fingerprint
