"""The rows of published MovieLens-1M results are those that their authors count."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.experiment.config import load_experiment
from pipelines.ingest.source import SOURCES
from tests.support import registries

DATA = os.environ.get("RECSYS_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="RECSYS_DATA is not set: no real data to read")
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def _table(name: str) -> pa.Table:
    with registries.restored(EXPERIMENTS):
        data = load_experiment(EXPERIMENTS / f"{name}.toml").data
        return pa.concat_tables(SOURCES[data.source].func(f"{DATA}/movielens-1m", **data.options))


def _rows(table: pa.Table) -> dict[str, int]:
    counts = pc.value_counts(table["split"]).to_pylist()
    return {each["values"]: each["counts"] for each in counts}


def test_autoint_has_no_undecided_ratings() -> None:
    table = _table("movielens-1m-autoint")
    assert _rows(table) == {"train": 591_209, "valid": 73_901, "test": 73_902}
    assert pc.sum(table["like"]).as_py() == 575_281
    assert 3 not in table["rating"].to_pylist()
    assert len(pc.unique(table["year"])) == 36
    assert pc.min_max(table["time"]).as_py() == {"min": 0, "max": 1}


@pytest.mark.thorough
def test_rechorus_has_its_notebooks_counts() -> None:
    table = _table("movielens-1m-ctr")
    assert _rows(table) == {"train": 983_836, "valid": 5_190, "test": 5_176}
    test = table.filter(pc.equal(table["split"], "test"))
    assert len(pc.unique(test["user_id"])) == 256
    assert pc.sum(test["like"]).as_py() == 2_874
    assert len(pc.unique(table["period"])) == 9
    positives = _table("movielens-1m-top-k")
    assert _rows(positives) == {"train": 568_761, "valid": 2_562, "test": 2_874}
    assert np.diff(positives["timestamp"].to_numpy()).min() >= 0
    for split, others in (("train", {"train"}), ("test", {"train", "valid", "test"})):
        row = positives.filter(pc.equal(positives["split"], split)).slice(1000, 1).to_pylist()[0]
        own = positives.filter(pc.equal(positives["user_id"], row["user_id"]))
        kept = own.filter(pc.is_in(own["split"], pa.array(sorted(others))))
        assert sorted(row["likes"]) == sorted(kept["item_id"].to_pylist())
