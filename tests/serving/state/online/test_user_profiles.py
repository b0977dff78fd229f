"""Static features of users: loaded, pushed and read, to the bit."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from serving.state.columns.missing import MISSING_INT
from serving.state.definitions.definition import StateDefinition
from serving.state.definitions.user_features import UserFeatures
from serving.state.errors import DataError
from serving.state.keyed.profiles import decode_profile, encode_profiles, profile_version
from serving.state.online.describe import key_summary
from serving.state.online.load import load_state
from serving.state.online.reader import StateReader
from serving.state.online.user_profiles import user_cells
from serving.state.online.writer import StateWriter
from serving.state.saved import SavedState, SavedWriter
from serving.state.stores.lmdb_store import LmdbStore
from serving.state.stores.store import Store
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
USERS = UserFeatures("user", COLUMNS)
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
ALONE = StateDefinition((), (), pa.schema([]), users=USERS)


def read(store: Store, user: Any, of: StateDefinition = ALONE) -> dict[str, Any]:
    return dict(StateReader(store, of).values({"user": user}, {}).context)


def blob_of(store: Store, user: str) -> bytes | None:
    return store.read(user_cells(USERS, {"user": user}))[0]


def test_values_are_those_that_were_written(store: Store, tmp_path: Path) -> None:
    of = StateDefinition((), (), pa.schema([]), users=USERS)
    with SavedWriter(tmp_path / "state", of, None) as writer:
        writer.write_users(USERS, pa.Table.from_pylist([ANN, NOBODY], COLUMNS))
    saved = SavedState.open(tmp_path / "state")
    assert saved.definition == of
    assert load_state(saved, store) == saved.keys(USERS) == 2
    loaded = blob_of(store, "ann")
    np.testing.assert_equal(read(store, "ann"), OF_ANN)
    assert type(read(store, "ann")["age"]) is np.float32
    for user in ("bob", "new", None, ""):
        np.testing.assert_equal(read(store, user), UNKNOWN)
    StateWriter(store, of).push_users([ANN])  # equal, but for the version
    pushed = blob_of(store, "ann")
    assert loaded is not None
    assert pushed is not None
    assert (profile_version(loaded), profile_version(pushed)) == (1, 2)
    assert loaded[16:] == pushed[16:]
    assert pushed[8:16] == (2).to_bytes(8, "little")


def test_push_replaces_all_features_of_a_user(store: Store) -> None:
    writer = StateWriter(store, ALONE)
    writer.push_users([ANN, {**NOBODY, "country": "x"}, {**NOBODY, "age": 3}])
    np.testing.assert_equal(read(store, "bob"), {**UNKNOWN, "age": np.float32(3)})
    writer.push_users([{**ANN, "age": np.nan, "brands": [], "more": 1}])
    np.testing.assert_equal(read(store, "ann"), {**OF_ANN, "age": np.float32("nan"), "brands": []})


def test_an_operator_sees_the_features_of_a_user(store: Store) -> None:
    StateWriter(store, ALONE).push_users([ANN])
    ann, new = (key_summary(store, ALONE, {"user": user}, None) for user in ("ann", "new"))
    np.testing.assert_equal({one.name: one.value for one in ann}, OF_ANN)
    np.testing.assert_equal({one.name: one.value for one in new}, UNKNOWN)
    assert all(one.ages == [] and one.by == ("user",) for one in ann)
    assert all(one.ages is None for one in new)  # the store has no such key


def test_two_writers_lose_no_write(store: Store) -> None:
    writer = StateWriter(store, ALONE)

    def push() -> None:
        for since in range(53):
            writer.push_users([{**ANN, "since": since}])

    threads = [threading.Thread(target=push) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert profile_version(blob_of(store, "ann")) == 2 * 53
    assert read(store, "ann")["since"] == 52


def test_features_over_time_are_beside_them(store: Store) -> None:
    """They change none of the groups' state, and are of one read."""
    plain = definition()
    of = StateDefinition(plain.aggregates, plain.histories, plain.columns, plain.late, "id",
                         users=USERS)  # fmt: skip
    assert [g.fingerprint for g in of.groups] == [g.fingerprint for g in plain.groups]
    writer = StateWriter(store, of)
    writer.add(arrivals(23).select(of.columns.names))
    writer.push_users([{**ANN, "user": "3"}])
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
        StateWriter(store, ALONE).push_users([ANN, {**NOBODY, **change}])
    assert blob_of(store, "ann") is None


def test_absent_columns_are_errors(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "store")
    with pytest.raises(DataError, match="user 0: the column 'country'"):
        StateWriter(store, ALONE).push_users([{"user": "ann", "contry": "x"}])
    with pytest.raises(DataError, match=r"request: the column 'user' \(the id of the user\)"):
        StateReader(store, ALONE).values({}, {})
    with pytest.raises(DataError, match=r"no static features of users\. Declare `data\.users`"):
        StateWriter(store, definition()).push_users([ANN])
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
        decode_profile(USERS, damage(blob))


def test_fingerprints_differ_by_names_and_types() -> None:
    other = [
        UserFeatures("country", COLUMNS),
        UserFeatures("user", COLUMNS.set(3, pa.field("age", pa.int64()))),
        UserFeatures("user", COLUMNS.remove(4)),
    ]
    assert len({USERS.fingerprint, *(of.fingerprint for of in other)}) == 1 + len(other)
    assert UserFeatures("user", COLUMNS).fingerprint == USERS.fingerprint
