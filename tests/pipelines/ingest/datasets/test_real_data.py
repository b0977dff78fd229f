"""The providers' real files, from the folder RECSYS_DATA: rows, columns and labels."""

import os
from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.pipelines.ingest.files import THIRDS, read_all, run

DATA = os.environ.get("RECSYS_DATA")
pytestmark = pytest.mark.skipif(not DATA, reason="RECSYS_DATA is not set: no real data to read")
BY_TIME = {"by": "time", "valid": 0.1, "test": 0.1}
PROVIDED = {"by": "provided", "valid": 0.1}
BY_USER = {"by": "user", "valid": 0.1, "test": 0.2}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("source", "folder", "split", "rows", "positives"),
    [
        ("movielens-1m", "movielens-1m", BY_TIME, 1_000_209, {"like": 575_281}),
        (
            "census-income",
            "census-income-kdd",
            PROVIDED,
            199_523 + 99_762,
            {"income_over_50k": 12_382 + 6_186},
        ),
        ("frappe", "frappe_x1", {"by": "provided"}, 288_609, {"label": 67_604 + 19_063 + 9_536}),
        # One list lacks what was clicked.
        ("trivago", "trivago-recsys19", BY_USER, 312_539 - 25, {"click": 13_596}),
        ("criteo", "criteo", THIRDS, 10_000, {}),
        ("avazu", "avazu", THIRDS, 8_087, {}),
    ],
)
def test_rows_and_labels_are_the_providers(source, folder, split, rows, positives, tmp_path):
    path = str(Path(DATA or "") / folder)
    summary = run(tmp_path, path=path, source=source, split=split)
    assert sum(summary["rows"].values()) == rows
    table = read_all(tmp_path)
    assert {label: pc.sum(table[label]).as_py() for label in positives} == positives
