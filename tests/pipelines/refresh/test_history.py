"""The history is the record of what serves: its lines, and what follows from them."""

from pathlib import Path

import pytest

from pipelines.common.errors import PipelineError
from pipelines.refresh.history import History


def test_new_run_has_no_versions(tmp_path: Path) -> None:
    history = History.of(tmp_path)
    assert (history.stable, history.canary, history.newest_version) == (None, None, 0)


def test_canary_becomes_stable_or_leaves(tmp_path: Path) -> None:
    history = History.of(tmp_path).add(1, "adopted").add(2, "published", ["better"], 1)
    assert history.stable == 1
    assert history.canary is not None
    assert (history.canary.version, history.newest_version) == (2, 2)
    promoted = history.add(2, "promoted")
    assert (promoted.stable, promoted.canary) == (2, None)
    refused = promoted.add(3, "refused", behind=2).add(4, "published", behind=2)
    back = refused.add(4, "rolled back")
    assert (back.stable, back.canary, back.newest_version) == (2, None, 4)


def test_lines_are_read_back_and_written_once(tmp_path: Path) -> None:
    history = History.of(tmp_path).add(1, "adopted").add(2, "published", ["a", "b"], 1)
    assert History.of(tmp_path) == history
    assert history.add(2, "published", ["other"], 1) is history


def test_folders_follow_the_chain(tmp_path: Path) -> None:
    history = History.of(tmp_path).add(4, "adopted").add(5, "published", behind=4)
    history = history.add(5, "promoted").add(6, "refused", behind=5).add(7, "published", behind=5)
    assert history.chain(7) == [7, 5, 4]
    assert [history.folder(version) for version in (4, 7)] == [tmp_path, tmp_path / "refresh/7"]


def test_damaged_line_is_named(tmp_path: Path) -> None:
    path = History.of(tmp_path).add(1, "adopted").path
    path.write_text(path.read_text().replace("adopted", "adapted"))
    with pytest.raises(PipelineError, match="'adapted' is no decision"):
        History.of(tmp_path)
