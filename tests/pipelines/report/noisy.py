"""Evaluations whose scores are the true probabilities with some noise."""

import numpy as np
import pyarrow as pa

from pipelines.metrics import task_metrics
from pipelines.report.results import Evaluation
from tests.pipelines.report import folders

ROWS, USERS = 12_000, 400


def scored(place, noise, seed=1, settings=0.01, **changes):
    """An evaluation of the task `click`, of 400 users and three devices."""
    rng = np.random.default_rng(0)
    users = np.arange(ROWS) % USERS
    users = np.where(users == 0, -1, users)
    true = 1 / (1 + np.exp(-rng.normal(-1, 1, ROWS)))
    labels = (rng.random(ROWS) < true).astype(np.float32)
    device = rng.integers(0, 3, ROWS)
    known = rng.random(ROWS) < 0.9
    logits = np.log(true / (1 - true)) + noise * np.random.default_rng(seed).normal(size=ROWS)
    group = pa.array(users, mask=users < 0)
    columns = {
        "request": np.arange(ROWS) // 5,
        "group": group,
        "click/label": pa.array(labels, mask=~known),
        "click/score": (1 / (1 + np.exp(-logits))).astype(np.float32),
        "segment/device": pa.DictionaryArray.from_arrays(
            pa.array(device.astype(np.int32)), pa.array(["device=a", "device=b", "device=c"])
        ),
    } | changes.pop("columns", {})
    score, label = columns["click/score"], columns["click/label"].to_numpy(zero_copy_only=False)
    task = task_metrics(label, score, groups=group.to_numpy(zero_copy_only=False))
    names = ["device=a", "device=b", "device=c"]
    counts = [int((known & (device == place)).sum()) for place in range(3)]
    task["segments"] = [
        {"name": name, "range": "", "rows": rows, "few": False, "columns": ["device"]}
        | dict.fromkeys(("auc_difference", "excess_logloss_difference", "auc", "logloss"), 0.5)
        | {"intervals": {"auc_difference": None, "excess_logloss_difference": None}}
        | {"positives": 9, "calibration": 1.0, "calibration_off": None}
        for name, rows in zip(names, counts, strict=True)
    ]
    metrics = folders.metrics() | {
        "rows": ROWS,
        "tasks": {"click": task},
        "seed": seed,
        "settings": {"training.learning_rate": settings},
        **changes,
    }
    return Evaluation.read(folders.write(place, metrics, columns))
