"""The providers' real files, from the folder RECSYS_DATA."""

import os
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from tests.pipelines.ingest.files import THIRDS, read_all, read_split, run

DATA = os.environ.get("RECSYS_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="RECSYS_DATA is not set: no real data to read")


def _run(tmp_path, folder, **options):
    return run(tmp_path, path=str(Path(DATA or "") / folder), **options)


def _positives(tmp_path, split, label):
    return pc.sum(read_split(tmp_path, split)[label]).as_py()


def test_movielens(tmp_path):
    split = {"by": "time", "valid": 0.1, "test": 0.1}
    history = {"of": "item_id", "by": "user_id", "time": "timestamp", "max_length": 5}
    summary = _run(
        tmp_path,
        "movielens-1m",
        source="movielens-1m",
        split=split,
        histories=[{"name": "liked", "where": "like", **history}],
    )
    assert sum(summary["rows"].values()) == 1_000_209
    train, test = read_split(tmp_path, "train"), read_split(tmp_path, "test")
    assert pc.max(train["timestamp"]).as_py() < pc.min(test["timestamp"]).as_py()
    assert sum(table["like"].null_count for table in (train, test)) == 0
    everything = read_all(tmp_path)
    assert pc.count_distinct(everything["user_id"]).as_py() == 6_040
    assert pc.count_distinct(everything["item_id"]).as_py() == 3_706
    assert pc.sum(everything["like"]).as_py() == 575_281


def test_census_income(tmp_path):
    split = {"by": "provided", "valid": 0.1}
    summary = _run(tmp_path, "census-income-kdd", source="census-income", split=split)
    rows = summary["rows"]
    assert (rows["train"] + rows["valid"], rows["test"]) == (199_523, 99_762)
    assert _positives(tmp_path, "test", "income_over_50k") == 6_186
    married = sum(_positives(tmp_path, part, "never_married") for part in ("train", "valid"))
    assert married == 86_485
    everything = read_all(tmp_path)
    college = pc.sum(everything["some_college"].slice(0, 199_523)).as_py()
    assert college == 27_820 + 5_358 + 4_363 + 19_865 + 6_541 + 1_793 + 1_263
    assert everything["migration_code_change_in_msa"].null_count > 99_696
    np.testing.assert_allclose(pc.mean(everything["instance_weight"]).as_py(), 1_740, rtol=0.01)


def test_frappe(tmp_path):
    summary = _run(tmp_path, "frappe_x1", source="frappe", split={"by": "provided"})
    assert summary["rows"] == {"train": 202_027, "valid": 57_722, "test": 28_860}
    positives = [_positives(tmp_path, part, "label") for part in ("train", "valid", "test")]
    assert positives == [67_604, 19_063, 9_536]


def test_trivago(tmp_path):
    split = {"by": "user", "valid": 0.1, "test": 0.2}
    summary = _run(tmp_path, "trivago-recsys19", source="trivago", split=split)
    assert sum(summary["rows"].values()) == 312_539 - 25  # one list lacks what was clicked
    table = read_all(tmp_path)
    assert pc.sum(table["click"]).as_py() == 13_596
    request = table["request_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    click = table["click"].to_numpy()
    assert request.max() + 1 == 13_596
    for name, expected in (("heuristic_position", 0.754), ("heuristic_last_item", 0.830)):
        score = table[name].to_numpy()
        clicked = np.zeros(request.max() + 1)
        clicked[request[click == 1]] = score[click == 1]
        beaten = np.where(
            click == 1, 0, (score < clicked[request]) + 0.5 * (score == clicked[request])
        )
        size = np.bincount(request)
        lists = size > 1
        auc = np.bincount(request, beaten)[lists] / (size[lists] - 1)
        np.testing.assert_allclose(np.average(auc, weights=size[lists]), expected, atol=0.002)


@pytest.mark.parametrize(
    ("source", "rows", "columns"), [("criteo", 10_000, 40), ("avazu", 8_087, 26)]
)
def test_heads_of_the_large_sets(source, rows, columns, tmp_path):
    summary = _run(tmp_path, source, source=source, split=THIRDS)
    assert sum(summary["rows"].values()) == rows
    assert len(summary["columns"]) == columns
