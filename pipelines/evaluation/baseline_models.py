"""Models without embeddings beside the evaluated one: their metrics and paired differences."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.baselines.score_baselines import score_baselines
from pipelines.common.progress import Progress
from pipelines.features import FittedFeatures
from pipelines.metrics import METRICS, ScoredRows
from pipelines.metrics.intervals import difference, separated
from pipelines.metrics.metric import values_of
from pipelines.metrics.metric_inputs import group_codes
from pipelines.metrics.task import calibration_off, ends
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import Task


def add_baseline_models(
    metrics: dict[str, Any],
    predictions: pa.Table,
    data: Path,
    split: DataSplit,
    fitted: FittedFeatures,
    seed: int,
    progress: Progress,
) -> None:
    """Fits the baseline models and adds them to the metrics of an evaluation.

    Args:
        metrics: The metrics by task, to which `baseline_models` are added.
        predictions: The labels and the model's scores of the evaluated rows.
        data: The run's data.
        split: The evaluated rows.
        fitted: Schema and transforms of the model.
        seed: Seed of the drawn rows and of the trees.
        progress: Shows a line at the end.
    """
    begin, available = time.perf_counter(), DataSplit(data / "train").rows
    scored = score_baselines(data, split, fitted, seed)
    for task in fitted.schema.tasks:
        scores = scored.scores.get(task.name, {})
        metrics["tasks"][task.name]["baseline_models"] = beside(predictions, task, scores)
    metrics["baseline_models"] = {"rows": scored.rows, "train_rows": available}
    taken = time.perf_counter() - begin
    of = "" if scored.rows == available else f" of {available:,}"
    progress.finish(f"baselines: fitted on {scored.rows:,}{of} train rows in {taken:.1f} s")


def beside(
    predictions: pa.Table, task: Task, scores: Mapping[str, NDArray[np.float64]]
) -> dict[str, dict[str, Any]]:
    """The metrics of the baselines of a task, and the model's difference to each.

    Args:
        predictions: The labels and the model's scores.
        task: The task; it is compared by AUC, or by GAUC if its scores only order candidates.
        scores: The scores of each baseline by name.
    """
    label = predictions[f"{task.name}/label"].to_numpy()
    known = ~np.isnan(label)
    if not scores or len(np.unique(label[known])) < 2:
        return {}
    has_groups = "group" in predictions.column_names
    named = predictions["group" if has_groups else "request"].combine_chunks()
    codes = group_codes(named.filter(pa.array(known)), label[known])
    compared = METRICS["auc" if task.has_probabilities else "gauc"]

    def rows(values: NDArray[Any]) -> ScoredRows:
        groups = codes if has_groups else None
        probabilities = task.has_probabilities
        of = (label[known] == 1, values[known], separated(codes), groups)
        return ScoredRows(*of, probabilities=probabilities)

    model = rows(predictions[f"{task.name}/score"].to_numpy())
    entries = {}
    for name, values in scores.items():
        baseline = rows(values)
        entry = values_of(baseline, METRICS.where("summary"))
        if compared.influence is not None and entry[compared.name] is not None:
            apart = difference(compared.influence(model), compared.influence(baseline))
            ahead = {"metric": compared.name, "difference": apart.value, "interval": ends(apart)}
            entries[name] = entry | {"calibration_off": calibration_off(baseline), "ahead": ahead}
    return entries
