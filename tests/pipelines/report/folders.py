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


def at_k(*numbers: float) -> dict[str, float]:
    """Metrics at the first places, different for each name."""
    names = [f"{name}@{k}" for name in ("hr", "ndcg", "mrr", "map") for k in (5, 10)]
    return {name: numbers[i % 2] + i / 1000 for i, name in enumerate(names)}


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
            "calibration": 1.13456789,
            "calibration_off": "high",
            "average_precision": 0.38246801,
            "normalised_entropy": 0.81357924,
            "recalibrated_entropy": 0.79246813,
            "calibration_error": 0.02345678,
            "intervals": {
                "auc": [0.69123456, 0.73345678],
                "auc_delong": [0.69567891, 0.72901243],
                "gauc": [0.67123459, 0.72629627],
            },
            "clusters": 97,
            "gauc_share": 0.86420975,
            "importance": [
                {"feature": "item_id", "columns": ["item_id"], "auc": [0.071, 0.052, 0.09]},
                {"feature": "noise", "columns": ["noise"], "auc": [-0.001, -0.004, 0.002]},
            ],
            "at_k": at_k(0.41, 0.42),
            "ranked_requests": 71,
            "trivial": {
                "auc": 0.5,
                "gauc": 0.5,
                "logloss": 0.56128734,
                "calibration": 0.97531864,
                "calibration_off": None,
                "at_k": at_k(0.21, 0.22),
            },
            "ceiling": {
                "auc": 0.73456789,
                "gauc": 0.72345678,
                "logloss": 0.44567891,
                "at_k": at_k(0.51, 0.52),
            },
            "baselines": {
                "popularity": {"auc": 0.61357913, "gauc": 0.60246802, "at_k": at_k(0.31, 0.32)}
            },
        },
        "conversion": {
            "rows": LABELLED,
            "positives": 59,
            "auc": 0.66778899,
            "gauc": None,
            "gauc_groups": 0,
            "logloss": 0.33221144,
            "calibration": 0.90817263,
            "calibration_off": None,
            "at_k": {},
            "ranked_requests": 0,
            "trivial": None,
            "ceiling": None,
            "baselines": {},
        },
    },
    "training": [
        {"epoch": 1, "loss": 0.52, "val_click_auc": 0.6511, "val_click_logloss": 0.5122},
        {"epoch": 2, "loss": 0.48, "val_click_auc": 0.7033, "val_click_logloss": 0.4744},
        {"epoch": 3, "loss": 0.47, "val_click_auc": 0.6955, "val_click_logloss": 0.4866},
    ],
    "kept": {
        "epoch": 2,
        "epochs": 3,
        "monitor": "AUC of click",
        "value": 0.7033,
        "stopped": "after 1 epoch without a better one (`training.patience`)",
    },
    "splits": {"train": 8089, "valid": 1009, "test": 1013},
    "times": {
        "column": "shown_at",
        "train": [1001, 2003],
        "valid": [2011, 3001],
        "test": [3011, 4001],
    },
    "labels": {
        "click": {"train": [8089, 1618], "valid": [1009, 251], "test": [1013, 203]},
        "conversion": {"train": [3011, 421], "valid": [401, 59], "test": [409, 61]},
    },
    "drift": [
        {
            "feature": "price",
            "kind": "numeric",
            "side": "candidate",
            "missing": [0.0213, 0.0734],
            "unknown": None,
            "test": "Kolmogorov-Smirnov",
            "p": 0.0123,
            "distance": 0.31415926,
            "drifted": True,
            "bins": [
                {"name": "below 3", "train": 0.6, "evaluated": 0.3},
                {"name": "3 or more", "train": 0.4, "evaluated": 0.7},
            ],
        },
        {
            "feature": "item_id",
            "kind": "categorical",
            "side": "candidate",
            "missing": [0.0, 0.0],
            "unknown": [0.0, 0.0512],
            "test": "distance",
            "p": None,
            "distance": 0.02718281,
            "drifted": False,
        },
    ],
    "trained": "2031-05-07T11:13:17+00:00",
    "evaluated": "2031-05-07T12:19:23+00:00",
    "seconds": {"ingest": 3.14, "fit": 1.59, "train": 2653.58},
    "machines": {
        "training": {
            "processor": "Fast One",
            "cores": 67,
            "memory": 2**36,
            "accelerators": ["Big GPU"],
        },
        "evaluation": {"processor": "Slow One", "cores": 3, "memory": 2**33, "accelerators": []},
    },
    "settings": {"model.name": "attention_ranker", "training.epochs": 17},
    "features": [
        {
            "name": "item_id",
            "kind": "categorical",
            "side": "candidate",
            "transform": "hash",
            "table_rows": 50021,
        },
        {
            "name": "price",
            "kind": "numeric",
            "side": "candidate",
            "transform": "log1p",
            "table_rows": None,
        },
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
