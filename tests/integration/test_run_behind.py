"""The second day's model: behind the first one's run, and served with its store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.features import FittedFeatures
from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server
from serving.state.online.load import load_state
from serving.state.online.reader import StateReader
from serving.state.online.writer import StateWriter
from serving.state.saved import SavedState
from serving.state.stores.lmdb_store import LmdbStore
from tests.integration.commands import invoke
from tests.support.once import once
from tests.support.state_exports import NEWEST, later_rows, write_state_export

ITEMS = [3, 19, 3, 999]
LATER = NEWEST + 86_400


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "state-export", write_state_export)


def test_second_model_serves_with_the_store_of_the_first(first: Path, tmp_path: Path) -> None:
    pq.write_table(later_rows(), tmp_path / "later.parquet")
    keys = {
        "data.path": tmp_path / "later.parquet",
        "data.behind": first / "run",
        "training.warm_start": first / "run",
    }
    settings = [text for key, value in keys.items() for text in ("--set", f"{key}={value}")]
    for step in ("ingest", "fit", "train", "export"):
        result = invoke(step, first / "live.toml", "--run-dir", tmp_path / "run", *settings)
        assert result.exit_code == 0, result.output
        if step == "fit":
            assert "4 values are new: item 3, country 1" in result.output
        if step == "train":
            sizes = [
                FittedFeatures.load(run / "features").schema
                for run in (first / "run", tmp_path / "run")
            ]
            before, after = (sum(of[name].size for name in ("item", "country")) for of in sizes)
            assert f"{before} of {after} table rows reused" in result.output
    saved, newer = (
        SavedState.open(run / "export/live/1/assets.extra/state")
        for run in (first / "run", tmp_path / "run")
    )
    assert saved.definition == newer.definition
    store = LmdbStore(tmp_path / "store")
    load_state(saved, store)
    StateWriter(store, saved.definition).add(later_rows().select(saved.definition.columns.names))
    reader = StateReader(store, newer.definition)
    values = reader.values({"user": "5"}, {"item": ITEMS}, LATER)
    store.close()
    config = ServerConfig(
        str(tmp_path / "run/export/live"), port=0, state=f"lmdb:{tmp_path / 'store'}"
    )
    server, port = create_server(config)
    server.start()
    with Client(f"localhost:{port}", timeout=60) as client:
        items = [{"item": item} for item in ITEMS]
        scores = client.rank({"user": "5", "as_of": LATER}, items)
        given = [
            {name: column[place] for name, column in values.candidates.items()} | item
            for place, item in enumerate(items)
        ]
        expected = client.rank(values.context, given)
    server.stop()
    np.testing.assert_array_equal(scores["click"], expected["click"])
