"""Evaluation folders for the tests of the report."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 1009
LABELLED = 401
POSITIVES = 251

# Invented numbers, no two alike: what the report shows must come from here.
METRICS: dict[str, Any] = {
    "name": "spring sale",
    "model": "attention_ranker",
    "split": "valid",
    "rows": ROWS,
    "requests": 127,
    "seed": 41,
    "config_hash": "c0ffee12",
    "data_hash": "decade34",
    "group": "user_id",
    "versions": {"keras": "3.15.1"},
    "tasks": {
        "click": {
            "rows": ROWS,
            "positives": POSITIVES,
            "auc": 0.71234567,
            "gauc": 0.69876543,
            "gauc_groups": 83,
            "logloss": 0.45678912,
            "calibration": 1.03456789,
            "ceiling": {"auc": 0.73456789, "gauc": 0.72345678, "logloss": 0.44567891},
            "baselines": {"popularity": {"auc": 0.61357913, "gauc": 0.60246802}},
        },
        "conversion": {
            "rows": LABELLED,
            "positives": 59,
            "auc": 0.66778899,
            "gauc": None,
            "gauc_groups": 0,
            "logloss": 0.33221144,
            "calibration": 0.90817263,
            "ceiling": None,
            "baselines": {},
        },
    },
    "training": [
        {"epoch": 1, "loss": 0.52, "val_click_auc": 0.6511, "val_click_logloss": 0.5122},
        {"epoch": 2, "loss": 0.48, "val_click_auc": 0.7033, "val_click_logloss": 0.4744},
        {"epoch": 3, "loss": 0.47, "val_click_auc": 0.6955, "val_click_logloss": 0.4866},
    ],
}


def metrics() -> dict[str, Any]:
    """A copy of the metrics, to change at will."""
    return copy.deepcopy(METRICS)


def columns() -> dict[str, Any]:
    """Predictions whose numbers of rows and positives are those of the metrics."""
    generator = np.random.default_rng(13)
    truth = np.sort(generator.beta(2, 6, ROWS)).astype(np.float32)
    click = np.zeros(ROWS, np.float32)
    click[generator.permutation(ROWS)[:POSITIVES]] = 1
    conversion = np.full(ROWS, np.nan, np.float32)
    conversion[:LABELLED] = np.arange(LABELLED) < 59
    return {
        "request": np.arange(ROWS) // 8,
        "group": np.arange(ROWS) % 89,
        "click/label": click,
        "click/score": (0.9 * truth + 0.05 * generator.random(ROWS)).astype(np.float32),
        "click/ceiling": truth,
        "conversion/label": pa.array(conversion, from_pandas=True),
        "conversion/score": generator.random(ROWS).astype(np.float32),
        "baseline/popularity": generator.normal(size=ROWS),
    }


def write(folder: Path, found: dict[str, Any], predictions: dict[str, Any]) -> Path:
    """An evaluation folder of these metrics and predictions."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(found), encoding="utf-8")
    pq.write_table(pa.table(predictions), folder / "predictions.parquet")
    return folder
