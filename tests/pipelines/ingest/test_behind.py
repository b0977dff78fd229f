"""Rows behind another run have the values, and leave the state, of one log of both."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.ingest import ingest
from pipelines.ingest.aggregates import add_aggregates
from pipelines.ingest.data_options import DataOptions
from pipelines.items import ItemTable
from recsys_attn.schema import Categorical, Schema, Task
from serving.state.definitions.history_options import HistoryOptions
from serving.state.errors import DataError
from serving.state.online.load import load_state
from serving.state.online.reader import StateReader
from serving.state.saved import SavedState
from serving.state.stores.open_store import open_store
from tests.serving.state.logs import LATE, NAMES, arrivals, ingested
from tests.support.event_logs import definitions

FEW: dict[str, Any] = {"aggregates": tuple(definitions()[:150:5])}


def sorted_log(seed: int) -> pa.Table:
    """Events in the order of time, in requests of one to four rows."""
    log = arrivals(seed=seed).sort_by("time")
    rng = np.random.default_rng(seed)
    request = np.repeat(np.arange(log.num_rows), rng.integers(1, 5, log.num_rows))
    return log.append_column("request", pa.array(request[: log.num_rows]))


def cells(saved: SavedState) -> dict[Any, Any]:
    """All that a state holds, by group and key."""
    held: dict[Any, Any] = {}
    for group in saved.definition.groups:
        for part in (*saved.blobs(group), *saved.ids(group)):
            held |= {(group.fingerprint, key): value for key, value in zip(*part, strict=True)}
    return held


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_a_chain_of_runs_equals_one_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(add_aggregates, "RANGE_ROWS", 29)
    monkeypatch.setattr(add_aggregates, "_SAMPLED", 2)
    log = sorted_log(seed)
    starts = np.flatnonzero(np.diff(log["request"].to_numpy())) + 1
    rng = np.random.default_rng(seed)
    cuts = [rng.choice(starts[(starts > low) & (starts < low + 40)]) for low in (19, 71)]
    whole, expected = ingested(tmp_path / "whole", log, request="request")
    behind = None
    for first, last in pairwise([0, *cuts, log.num_rows]):
        folder = tmp_path / str(first)
        rows = log.slice(first, last - first)
        made, saved = ingested(folder, rows, request="request", behind=behind)
        assert made.select(NAMES).equals(whole.slice(first, last - first).select(NAMES))
        behind = folder
    assert saved.definition == expected.definition
    assert (saved.newest, cells(saved)) == (expected.newest, cells(expected))


def test_late_rows_are_counted_as_a_store_counts_them(tmp_path: Path) -> None:
    """Rows that a store takes count; older ones do not, and are no more than rows to learn from."""
    log = arrivals(seed=4)
    past, behind = log.slice(0, 71), log.slice(71)
    newest = past["time"].to_numpy().max()
    too_old = past.slice(0, 3).set_column(2, "time", pa.array([0, int(newest - LATE) - 1, 3]))
    probes = past.slice(50, 11).set_column(2, "time", pa.array([99] * 11))
    _, saved = ingested(tmp_path / "past", past)
    rows = pa.concat_tables([behind, too_old, probes])
    made, _ = ingested(tmp_path / "behind", rows, behind=tmp_path / "past")
    expected, _ = ingested(tmp_path / "whole", pa.concat_tables([log, probes]))
    after = slice(behind.num_rows + 3, None), slice(log.num_rows, None)
    for name in NAMES:
        assert made[name].to_pylist()[after[0]] == expected[name].to_pylist()[after[1]]
    store = open_store(f"lmdb:{tmp_path / 'store'}")
    load_state(saved, store)
    reader = StateReader(store, saved.definition)
    earlier = [row for row in made.to_pylist() if row["time"] < newest]
    assert len(earlier) > 11
    for row in earlier:
        values = reader.values({"user": row["user"]}, {"item": [row["item"]]}, row["time"])
        of_item = {name: column[0] for name, column in values.candidates.items()}
        for name, value in {**values.context, **of_item}.items():
            np.testing.assert_array_equal(plain(row[name]), plain(value), err_msg=name)
    store.close()


def plain(value: Any) -> Any:
    """A missing number as NaN."""
    return np.nan if value is None else value


def test_columns_of_a_server_stay_as_they_are(tmp_path: Path) -> None:
    log, past = sorted_log(5), tmp_path / "past"
    ingested(past, log.slice(0, 61), **FEW)
    rows = log.slice(61)
    made, expected = ingested(tmp_path / "made", rows, behind=past, **FEW)
    served = {"a0": pa.array(np.arange(rows.num_rows) / 8, pa.float32()), "liked": made["liked"]}
    for name, values in served.items():
        rows = rows.append_column(name, values)
    kept, saved = ingested(tmp_path / "kept", rows, behind=past, **FEW)
    for name in ("a0", "a5", "liked", "named"):
        expected_of = served.get(name, made[name])
        assert kept[name].to_pylist() == expected_of.to_pylist(), name
    assert cells(saved) == cells(expected)
    with pytest.raises(DataError, match="'a0' would replace a column"):
        ingested(tmp_path / "alone", rows, **FEW)


def test_columns_get_the_types_of_the_state(tmp_path: Path) -> None:
    log, past = sorted_log(6), tmp_path / "past"
    ingested(past, log.slice(0, 61), **FEW)
    rows = log.slice(61)
    _, expected = ingested(tmp_path / "same", rows, behind=past, **FEW)
    item = rows.schema.get_field_index("item")
    for kind in (pa.int16(), pa.float64()):
        folder = tmp_path / str(kind)
        other = rows.set_column(item, "item", rows["item"].cast(kind))
        _, saved = ingested(folder, other, behind=past, **FEW)
        assert cells(saved) == cells(expected)
    halves = pa.array(np.arange(rows.num_rows) / 2)
    with pytest.raises(DataError, match=r"'item': expected int64, as the state of `data.behind`"):
        ingested(tmp_path / "halves", rows.set_column(item, "item", halves), behind=past, **FEW)


def test_numbers_after_texts_keep_their_values(tmp_path: Path) -> None:
    """Histories of one group share the list of texts, which numbers are no places of."""
    of = [("names", "name"), ("items", "item")]
    more = {"by": "user", "time": "time", "max_length": 3}
    histories = [HistoryOptions(name=name, of=column, **more) for name, column in of]
    log = arrivals(31).sort_by("time")
    pq.write_table(log, tmp_path / "log.parquet")
    options = DataOptions(
        source="parquet",
        path=str(tmp_path / "log.parquet"),
        histories=tuple(histories),
        split={"by": "hash", "column": "time", "valid": 0.3, "test": 0.3},
    )
    ingest(options, None, 0, tmp_path / "data")
    saved = SavedState.open(tmp_path / "data" / "state")
    (group,) = saved.definition.groups
    keys, states = saved.states(group)
    past = states.pasts[1]
    for number, key in enumerate(keys):
        rows = [row for row in log.to_pylist() if row["user"] and row["user"].encode() in key[0]]
        words = past.parts[past.key == number]  # three, and those of the newest time
        items = [int(word) if known else None for known, word in words]
        assert len(items) >= min(3, len(rows))
        assert items == [row["item"] for row in rows[len(rows) - len(items) :]]


def test_items_without_a_table_are_those_of_both_runs(tmp_path: Path) -> None:
    schema = Schema((Categorical("item", dtype="int64"),), (Task("click"),))
    behind = None
    for name, first in (("past", 3), ("later", 7)):
        (tmp_path / name).mkdir()
        items = np.arange(first, first + 61) % 67
        rows = {"item": items, "click": items % 2, "row": np.arange(61)}
        pq.write_table(pa.table(rows), tmp_path / name / "rows.parquet")
        options = DataOptions(
            source="parquet",
            path=str(tmp_path / name / "rows.parquet"),
            items={"key": "item"},
            behind=behind,
            split={"by": "hash", "column": "row", "valid": 0.3, "test": 0.3},
        )
        ingest(options, schema, 0, tmp_path / name / "data")
        behind = tmp_path / name
    tables = [ItemTable.load(tmp_path / name / "data") for name in ("past", "later")]
    known, found = (set(table.keys.to_pylist()) for table in tables if table is not None)
    train = pq.read_table(tmp_path / "later" / "data" / "train")["item"].to_pylist()
    assert found == known | set(train) > known
