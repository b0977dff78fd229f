"""The loop of seven days: what was served is what one log would have, and what was learned from."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from experiments.seven_days.__main__ import MARKET, main
from pipelines.experiment.config import load_experiment
from pipelines.ingest.ingest import ingest
from pipelines.refresh.history import History

PAST, DAYS, ROWS = 6, 7, 2_000  # days before the week, days of it, rows of a day
SMALL = ("training.epochs=1", "refresh.rows=200", f"data.simulate.rows={PAST * ROWS}")


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("week")
    sets = [part for one in SMALL for part in ("--set", one)]
    result = CliRunner().invoke(main, ["--folder", str(folder), *sets], catch_exceptions=False)
    assert result.exit_code == 0
    return folder


def served(week: Path) -> pa.Table:
    return pq.read_table(sorted((week / "rows").glob("*.parquet")))


@pytest.mark.thorough
@pytest.mark.timeout(1500)
def test_served_rows_are_those_of_one_log(week: Path, tmp_path: Path) -> None:
    """Through seven nights the store, the log and the join lose nothing and add nothing."""
    experiment = load_experiment(MARKET)
    assert experiment.data.simulate is not None
    days = PAST + DAYS
    whole = experiment.data.simulate.model_copy(update={"rows": days * ROWS, "days": days})
    data = experiment.data.model_copy(update={"simulate": whole})
    ingest(data, experiment.schema_, experiment.seed, tmp_path / "data")
    splits = [pq.read_table(tmp_path / "data" / split) for split in ("train", "valid", "test")]
    log = pa.concat_tables(splits)
    rows = served(week)
    assert rows.num_rows > (DAYS - 1) * ROWS
    names = ["item_id", "timestamp", "device", "clicked_items", "click"]
    by_request = log.filter(pc.is_in(log["request_id"], rows["request_id"].cast(pa.int64())))
    keys = [("request_id", "ascending"), ("item_id", "ascending")]
    rows = rows.set_column(0, "request_id", rows["request_id"].cast(pa.int64())).sort_by(keys)
    by_request = by_request.sort_by(keys)
    for name in names:
        assert rows[name].to_pylist() == by_request[name].to_pylist(), name


@pytest.mark.thorough
@pytest.mark.timeout(1500)
def test_only_published_versions_serve(week: Path) -> None:
    decisions = History.of(week / "run").decisions
    public = {d.version for d in decisions if d.what in ("adopted", "published")}
    versions = served(week)["served_version"].to_numpy()
    assert set(versions.tolist()) <= public
    assert len(set(versions.tolist())) > 2
    assert {d.what for d in decisions} >= {"adopted", "published", "promoted"}
    assert set(served(week)["served_state"].to_pylist()) == {"answered"}
    assert np.isfinite(served(week)["served_score_click"].to_numpy()).all()
