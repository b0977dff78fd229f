"""All metrics of an evaluation and its page: seconds and memory.

    python -m benchmarks.evaluation                             # ten million rows: about a minute
    python -m benchmarks.evaluation --rows 1000000 --users 20000 --requests 200000

Requests of one user each, whose rows differ in float32 scores; labels are drawn from the scores.
Seconds are those of the clock. Memory is the largest of the process during the step, with the
arrays and the imports. The first two steps are what `recsys-attn evaluate` does after it has scored
the rows; the others are functions of `pipelines.metrics`, each called alone. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from pipelines import metrics
from pipelines.evaluation.evaluate import save_evaluation
from pipelines.report import write_report

Rows = dict[str, np.ndarray]
OF_SCORES = (
    "auc",
    "average_precision",
    "roc_curve",
    "delong_interval",
    "logloss",
    "recalibrated_entropy",
    "calibration_error",
)
OF_USERS = ("auc_interval", "gauc", "gauc_interval")


def draw(rows: int, users: int, requests: int) -> Rows:
    """Labels, scores, users and requests of calibrated predictions, about 6 % positive."""
    rng = np.random.default_rng(0)
    request = np.sort(rng.integers(requests, size=rows))
    user = rng.integers(users, size=requests)[request]
    logits = rng.normal(-3.2, 0.6, users)[user] + rng.normal(0, 0.8, rows)
    scores = (1 / (1 + np.exp(-logits))).astype(np.float32)
    labels = (rng.random(rows) < scores).astype(np.float32)
    return {"labels": labels, "scores": scores, "users": user, "requests": request}


def steps(rows: Rows, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """The names of the steps and the functions to call."""
    labels, scores, users, requests = rows.values()
    tasks: dict[str, Any] = {}

    def measure() -> None:
        tasks["click"] = metrics.task_metrics(
            labels, scores, groups=users, requests=requests, train_rate=float(labels.mean())
        )

    yield "the rows alone", lambda: None
    yield "all metrics", measure
    columns = {"request": requests, "group": users, "click/label": labels, "click/score": scores}
    about = {"rows": labels.size, "requests": int(requests[-1]) + 1, "group": "user"}
    names = dict.fromkeys(("name", "model", "split", "seed", "config_hash", "data_hash"), "none")
    rest = {"versions": {}, "training": [], "tasks": tasks}
    save_evaluation(folder, pa.table(columns), names | about | rest)
    yield "page", lambda: write_report(folder, folder / "report.html")
    for name in OF_SCORES:
        yield name, partial(getattr(metrics, name), labels, scores)
    for name in OF_USERS:
        yield name, partial(getattr(metrics, name), labels, scores, users)
    yield "MeansAtK", lambda: metrics.MeansAtK([10]).add(labels, scores, requests)


def measured(step: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a step, and the largest memory of the process during it in GB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    start = time.perf_counter()
    step()
    seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return seconds, int(status.partition("VmHWM:")[2].split()[0]) / 2**20


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--requests", type=int, default=2_000_000)
    options = parser.parse_args()
    table = Table("step", "seconds", "memory, GB")
    with tempfile.TemporaryDirectory() as folder:
        rows = draw(options.rows, options.users, options.requests)
        for name, step in steps(rows, Path(folder)):
            seconds, memory = measured(step)
            table.add_row(name, f"{seconds:.1f}", f"{memory:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
