"""The commands of the state, from a run and a folder of events to what an operator sees."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration.commands import error_of, invoke
from tests.serving.state.logs import arrivals, ingested

PAST = 41


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, with its state."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    ingested(folder, arrivals(97).slice(0, PAST), time_unit="s")
    return folder


def test_load_follow_show_and_forget(run: Path, tmp_path: Path) -> None:
    store = ["--store", f"lmdb:{tmp_path / 'store'}"]
    (tmp_path / "log").mkdir()
    log = ["--from", str(tmp_path / "log"), "--once"]
    letters = ["--dead-letters", str(tmp_path / "dead.jsonl")]
    pq.write_table(arrivals(97).slice(PAST), tmp_path / "log/1.parquet")
    early = invoke("state", "follow", str(run), *store, *log, *letters)
    assert early.exit_code == 1
    assert "state load" in error_of(early)
    assert "not loaded" in invoke("state", "show", str(run), *store).output
    loaded = invoke("state", "load", str(run), *store)
    assert loaded.exit_code == 0
    assert " keys  lmdb:" in loaded.output
    assert "Check the times of the log and `data.time_unit`." in loaded.output  # of 1970
    assert "0 keys; " in invoke("state", "load", str(run), *store).output
    (tmp_path / "log/2.jsonl").write_text("no json\n")
    followed = invoke("state", "follow", str(run), *store, *log, *letters)
    assert f"{arrivals(97).num_rows - PAST + 1} events" in followed.output
    assert "1 invalid" in followed.output
    shown = invoke("state", "show", str(run), *store)
    assert shown.exit_code == 0
    assert "all rows" in shown.output
    assert "Size of the store" in shown.output
    key = invoke("state", "show", str(run), *store, "--key", "user=3", "--as-of", "99")
    assert key.exit_code == 0
    assert "liked" in key.output
    assert " s ago" in key.output
    assert "paid" not in key.output  # of items
    assert "no such key" not in key.output
    other = invoke("state", "show", str(run), *store, "--key", "user=30011", "--as-of", "99")
    assert "no such key" in other.output
    forgotten = invoke("state", "forget", str(run), *store)
    assert forgotten.exit_code == 0
    assert " keys of " in forgotten.output


def test_mistakes_are_sentences(run: Path, tmp_path: Path) -> None:
    store = ["--store", f"lmdb:{tmp_path / 'store'}"]
    assert "holds no state" in error_of(invoke("state", "show", str(run), *store))
    assert "data/state" in error_of(invoke("state", "load", str(tmp_path), *store))
    invoke("state", "load", str(run), *store)
    show = ["state", "show", str(run), *store]
    assert "COLUMN=VALUE" in error_of(invoke(*show, "--key", "user"))
    assert "Did you mean 'user'?" in error_of(invoke(*show, "--key", "usr=3"))
    assert "int64" in error_of(invoke(*show, "--key", "item=a"))
    follow = ["state", "follow", str(run), *store, "--from", str(tmp_path)]
    assert "--dead-letters" in error_of(
        invoke(*follow, "--dead-letters", str(tmp_path / "dead.jsonl"))
    )
