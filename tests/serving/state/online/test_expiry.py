"""Keys that are forgotten are removed, and no value changes by it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serving.state.definitions.definition import StateDefinition
from serving.state.errors import DataError
from serving.state.keyed.keys import Key
from serving.state.online.expiry import forget_old
from serving.state.online.writer import StateWriter
from serving.state.stores.lmdb_store import LmdbStore
from serving.state.stores.store import Store
from tests.serving.state.logs import arrivals, read_values, small_definition


def forgetting(late: float | None = 3.0) -> StateDefinition:
    """Features of users and pairs that forget, and of items that do not."""
    whole = small_definition()
    changed = {"forget_after": 2.0}
    return small_definition(
        late=late,
        aggregates=tuple(
            a if a.by == "item" else a.model_copy(update=changed) for a in whole.aggregates
        ),
        histories=tuple(h.model_copy(update=changed) for h in whole.histories),
    )


def test_values_stay_while_keys_go(store: Store, tmp_path: Path) -> None:
    of, log = forgetting(), arrivals(seed=2)
    whole = LmdbStore(tmp_path / "whole")
    forgetful, patient = StateWriter(store, of), StateWriter(whole, of)
    removed = 0
    for first in range(0, log.num_rows, 13):
        rows = log.slice(first, 13).select(of.columns.names)
        late = [writer.add(rows).late for writer in (forgetful, patient)]
        np.testing.assert_array_equal(*late)
        before = size(store, of)
        results = forget_old(store, of)
        assert [result.by for result in results] == [("user",), ("user", "item")]
        assert [result.keys for result in results] == before
        assert [result.keys - result.removed for result in results] == size(store, of)
        removed += sum(result.removed for result in results)
        newest = log["time"][: first + 13].to_numpy().max()
        for moment in (newest, newest + 1, newest + 5):
            np.testing.assert_equal(read_values(store, of, moment), read_values(whole, of, moment))
    assert removed > 20
    whole.close()


def size(store: Store, of: StateDefinition) -> list[int]:
    return [
        len(dict(store.cells(group.fingerprint))) for group in of.groups if group.gap is not None
    ]


def test_a_key_that_changes_meanwhile_stays(store: Store) -> None:
    of = forgetting()
    event = {"user": "1", "item": 1, "time": 10, "click": 1, "id": None}
    writer = StateWriter(store, of)
    writer.push([{**event, "item": item} for item in (1, 2)])
    writer.push([{**event, "user": "2", "time": 99}])

    class Busy:
        """A store whose key changes when it has been read."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def cells(self, group: bytes) -> Iterator[tuple[Key, bytes]]:
            cells = list(store.cells(group))
            writer.push([{**event, "time": 100}])
            return iter(cells)

    users, pairs = forget_old(Busy(), of)  # type: ignore[arg-type]
    assert (users.keys, users.removed) == (2, 0)
    assert (pairs.keys, pairs.removed) == (3, 1)


def test_rows_of_any_age_need_everything(store: Store) -> None:
    with pytest.raises(DataError, match=r"Set `data\.late`"):
        forget_old(store, forgetting(late=None))
    assert len(forget_old(store, forgetting())) == 0  # nothing was written
