"""With the encoded histories of users, `rank` answers as with the whole histories."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.ingest import ingest
from serving.common.request_trace import RequestTrace
from serving.config.batching import BatchingParameters
from serving.encoding.events import PushedRows
from serving.inference.model_states import ModelStates
from serving.models.model import Model
from serving.server.loader import Loader, LoadOptions
from serving.state.definitions.history_options import HistoryOptions
from serving.state.online.load import load_state
from serving.state.saved import SavedState
from serving.state.stores.lmdb_store import LmdbStore
from tests.serving.traces import trace
from tests.support.encoded_exports import request, write_encoded_export

ITEMS = [13, 7, 999, 0, -1, 13, 7, 0, 13, 999, 7]
SEARCHES = ["a", "never seen", "b", "a", "b"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version whose encoder steps."""
    folder = tmp_path_factory.mktemp("encoded")
    write_encoded_export(folder / "rotary" / "1", "rotary")
    return folder


def _load(folder: Path, encoder: str, users: int, **options: Any) -> Model:
    path = folder / encoder / "1"
    return Loader(LoadOptions(warmup_iterations=0, user_states=users, **options))(encoder, 1, path)


@pytest.fixture(scope="module")
def plain(folder: Path) -> Model:
    return _load(folder, "rotary", users=0)


def _check(
    model: Model, plain: Model, inputs: dict[str, np.ndarray], user: bytes, hit: bool
) -> None:
    found, record = _rank(model, {**inputs, "user": np.array([user], object)})
    expected, _ = _rank(plain, inputs)
    for task, scores in expected.items():
        np.testing.assert_allclose(found[task], scores, atol=1e-5)
    assert (record.user_hits, record.user_misses) == (int(hit), int(not hit))
    assert record.candidates == 4


def _rank(model: Model, inputs: dict[str, np.ndarray]) -> tuple[Any, RequestTrace]:
    record = trace()
    return model.signature("rank").run(inputs, ("click", "buy"), record), record


def test_a_history_that_goes_on_is_a_hit(folder: Path, plain: Model) -> None:
    model = _load(folder, "rotary", users=3, batching=BatchingParameters())
    for seen, searches, hit in (
        (ITEMS[:2], SEARCHES[:1], False),
        (ITEMS[:2], SEARCHES[:1], True),  # the next page
        (ITEMS[:4], SEARCHES[:1], True),
        (ITEMS[:5], SEARCHES[:3], True),
        (ITEMS[:5], SEARCHES[1:3], False),  # a window of the searches
        (ITEMS[1:5], SEARCHES[1:3], False),
        (ITEMS[1:5], [], False),
        (ITEMS[1:8], [], True),
        (ITEMS[1:9], [], False),  # more than the model sees
        (ITEMS[1:9], [], True),
        (ITEMS[1:9], SEARCHES[:2], True),
        (ITEMS[1:10], SEARCHES[:2], False),
    ):
        _check(model, plain, request(seen, searches), b"u", hit)
    _check(model, plain, request(ITEMS[1:10], SEARCHES[:2]), b"v", hit=False)
    found, record = _rank(model, request(ITEMS, SEARCHES))
    assert (record.user_hits, record.user_misses) == (0, 0)
    assert found.keys() == {"click", "buy"}


@pytest.mark.thorough
def test_without_steps_only_an_equal_history_is_a_hit(tmp_path: Path) -> None:
    """The encoder reads a feature of the request too."""
    write_encoded_export(tmp_path / "context" / "1", "context")
    plain, model = (_load(tmp_path, "context", users) for users in (0, 3))
    for seen, city, hit in (
        (ITEMS[:2], 7, False),
        (ITEMS[:2], 7, True),
        (ITEMS[:3], 7, False),
        (ITEMS[:3], 13, False),  # the encoder reads the city
        (ITEMS[:3], 13, True),
        (ITEMS, 13, False),
        (ITEMS, 13, True),
    ):
        _check(model, plain, request(seen, SEARCHES, city), b"u", hit)


def test_the_key_of_a_store_names_the_user(folder: Path, plain: Model, tmp_path: Path) -> None:
    """A request of a user and items; then an event is pushed, which is one step."""
    store = LmdbStore(tmp_path / "store")
    states = ModelStates(store, store, takes_events=True)
    path = _with_state(folder / "rotary" / "1", tmp_path)
    load_state(SavedState.open(path / "assets.extra" / "state"), store)
    options = LoadOptions(warmup_iterations=0, user_states=3, state=states)
    model = Loader(options)("rotary", 1, path)
    others = {name: request([], [])[name] for name in ("city", "item", "brand")}
    for owner, hits in ((5, 0), (5, 1), (3, 0), (None, None), (5, 1)):
        owners = np.array([np.iinfo("int64").min if owner is None else owner])
        found, record = _rank(model, {**others, "owner": owners})
        assert record.user_hits + record.user_misses == (hits is not None)
        assert record.user_hits == (hits or 0)
        inputs = {n: record.inputs[n] for n in plain.signature("rank").input_specs}
        expected, _ = _rank(plain, inputs)
        np.testing.assert_allclose(found["click"], expected["click"], atol=1e-5)
        if owner == 3:
            event = {"owner": 5, "item": 7, "maker": "b", "word": "a", "time": 99}
            states.push("rotary", PushedRows([event]))
    assert inputs["past_items"][0, -1] == 7
    model.close()
    store.close()


def _with_state(export: Path, folder: Path) -> Path:
    """A copy of a version whose histories are those of a log; each of 11 owners has 2 events."""
    rows = pa.table(
        {
            "row": range(22),
            "owner": [n % 11 for n in range(22)],
            "item": [ITEMS[n % 11] for n in range(22)],
            "maker": [SEARCHES[n % 5] for n in range(22)],
            "word": [SEARCHES[n % 3] for n in range(22)],
            "time": range(22),
        }
    )
    pq.write_table(rows, folder / "rows.parquet")
    by = {"by": "owner", "time": "time"}
    data = DataOptions(
        source="parquet",
        path=str(folder / "rows.parquet"),
        time_unit="s",
        histories=(
            HistoryOptions(name="past_items", of="item", max_length=7, **by),
            HistoryOptions(name="past_brands", of="maker", max_length=7, **by),
            HistoryOptions(name="searches", of="word", max_length=3, **by),
        ),
        split={"by": "hash", "column": "row", "valid": 0.3, "test": 0.3},
    )
    ingest(data, None, 0, folder / "data")
    shutil.copytree(export, folder / "1")
    shutil.copytree(folder / "data" / "state", folder / "1" / "assets.extra" / "state")
    return folder / "1"
