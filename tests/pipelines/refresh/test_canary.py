"""One decision on a canary: from enough rows on, and not before both versions can be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.experiment.config import Experiment
from pipelines.refresh.canary import decide
from pipelines.refresh.history import Decision
from tests.support.experiments import load
from tests.support.served_rows import ServedHours

PUBLISHED = Decision(8, "published", "2026-11-29T08:00:00+00:00", behind=7)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return load(tmp_path, refresh__rows=1_000)


def test_rows_before_the_publication_do_not_count(tmp_path: Path, experiment: Experiment) -> None:
    hours = ServedHours(seed=1)
    rows = hours.write(tmp_path / "rows")
    since = int(hours.of_canary(since=1).sum())
    waits = load(tmp_path, refresh__rows=since + 1)
    what, why = decide(rows, waits, 7, PUBLISHED)
    assert (what, why) == (None, (f"it waits for {since + 1:,} rows and has {since:,}",))
    what, why = decide(rows, load(tmp_path, refresh__rows=since), 7, PUBLISHED)
    assert what == "promoted"
    assert why[0].startswith(f"{since:,} rows against ")
    assert why[1].startswith("AUC of click: ")


def test_reasons_are_the_gates_that_failed(tmp_path: Path, experiment: Experiment) -> None:
    hours = ServedHours(seed=1)
    hours.columns["missing"] |= hours.of_canary()
    what, why = decide(hours.write(tmp_path / "rows"), experiment, 7, PUBLISHED)
    assert what == "rolled back"
    assert all("price missing" in words for words in why)


def test_without_rows_of_the_stable_version_it_waits(
    tmp_path: Path, experiment: Experiment
) -> None:
    """Also with a fault that is seen without them, as the decision is made once."""
    hours = ServedHours(seed=1, share=1.0)
    hours.columns["state"][:] = "degraded"
    what, why = decide(hours.write(tmp_path / "rows"), experiment, 7, PUBLISHED)
    assert what is None
    assert why[0].endswith("rows against 0 are too few to compare")


def test_zero_rows_promote_at_once(tmp_path: Path) -> None:
    assert decide(tmp_path, load(tmp_path, refresh__rows=0), 7, PUBLISHED).what == "promoted"
