"""What a server has logged, joined with the clicks on it: from a client to rows with labels."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server
from serving.state.online.load import load_state
from serving.state.saved import SavedState
from serving.state.stores.lmdb_store import LmdbStore
from tests.integration.commands import invoke
from tests.support.once import once
from tests.support.state_exports import write_state_export

ITEMS = [3, 11, 5]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray], int]:
    """A run and a log of its server, the scores by user, and the second of the first click."""
    run = once(tmp_path_factory, "state-export", write_state_export) / "run"
    folder = tmp_path_factory.mktemp("joined")
    shutil.copytree(run, folder / "run")
    store = LmdbStore(folder / "store")
    load_state(SavedState.open(run / "export/live/1/assets.extra/state"), store)
    store.close()
    config = ServerConfig(
        str(run / "export/live"),
        port=0,
        state=f"lmdb:{folder / 'store'}",
        allow_push=True,
        prediction_log_dir=str(folder / "log"),
        prediction_log_sampling_rate=1.0,
    )
    server, port = create_server(config)
    server.start()
    scores = {}
    with Client(f"localhost:{port}", model="live", timeout=60) as client:
        for user in ("5", "7"):
            scores[user] = client.rank({"user": user}, [{"item": item} for item in ITEMS])["click"]
        now = int(time.time())
        click = {"user": "5", "item": 11, "time": now, "click": 1}
        assert client.push([click]).counted == 1
    server.stop()
    return folder, scores, now


def write(folder: Path, events: list[dict[str, Any]], now: int) -> None:
    """Writes events, and one that is so late that the hour of the requests is over."""
    folder.mkdir(exist_ok=True)
    events = [*events, {**events[0], "time": now + 2 * 3600, "item": 999}]
    (folder / "clicks.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def test_clicks_are_labels_of_what_was_served(served: Any) -> None:
    folder, scores, now = served
    write(folder / "events", [{"user": "5", "item": 11, "time": now, "click": 1}], now)
    result = invoke(
        *("join", folder / "log", "--run", folder / "run", "--outcomes", folder / "events"),
        *("--window", "30m", "--output", folder / "rows"),
    )
    assert result.exit_code == 0, result.output
    assert "1 hours written" in result.output
    (file,) = (folder / "rows").glob("*.parquet")
    rows = pq.read_table(file)
    assert rows.column_names == [
        *("request", "time", "user"),
        *("item", "clicked", "ages", "item_ctr", "pair_seen", "user_clicks", "country", "height"),
        *("click", "served_at", "served_version", "served_label", "served_state"),
        *("served_lag_seconds", "served_score_click"),
    ]
    assert rows["user"].to_pylist() == ["5"] * 3 + ["7"] * 3
    assert rows["click"].to_pylist() == [0, 1, 0, 0, 0, 0]
    assert set(rows["served_state"].to_pylist()) == {"answered"}
    expected = np.concatenate([scores["5"], scores["7"]])
    np.testing.assert_array_equal(rows["served_score_click"], expected)


def test_outcomes_name_their_request(served: Any) -> None:
    folder, _, now = served
    rows = pq.read_table(next((folder / "rows").glob("*.parquet")))
    request = rows["request"][5].as_py()
    event = {"request": request, "item": ITEMS[2], "time": now + 60, "click": 1}
    write(folder / "named", [event], now)
    result = invoke(
        *("join", folder / "log", "--run", folder / "run", "--outcomes", folder / "named"),
        *("--window", "1h", "--output", folder / "rows by request"),
    )
    assert result.exit_code == 0, result.output
    rows = pq.read_table(next((folder / "rows by request").glob("*.parquet")))
    assert rows["click"].to_pylist() == [0, 0, 0, 0, 0, 1]
    result = invoke(
        *("join", folder / "log", "--run", folder / "run", "--outcomes", folder / "named"),
        *("--window", "2h", "--output", folder / "rows by request"),
    )
    assert result.exit_code == 1
    assert "joined with another window: expected 3600, received 7200" in result.output


@pytest.mark.parametrize(
    ("window", "output", "message"),
    [("1.5h", "rows", "--window: expected"), ("1h", "events/rows", "expected a folder outside")],
)
def test_options_are_checked_before_any_log(
    served: Any, tmp_path: Path, window: str, output: str, message: str
) -> None:
    result = invoke(
        *("join", tmp_path / "log", "--run", served[0] / "run", "--window", window),
        *("--outcomes", tmp_path / "events", "--output", tmp_path / output),
    )
    assert result.exit_code == 1
    assert message in result.output
