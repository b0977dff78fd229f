"""Drift and skew of a prediction log against the training data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pipelines.common.artifacts import (
    MANIFEST,
    PREDICTIONS,
    atomic_file,
    read_json,
    without_nan,
    write_json,
)
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.distributions.compare_statistics import (
    compare_feature,
    compare_task,
    flagged,
    label_rate,
)
from pipelines.distributions.reference import of_split
from pipelines.distributions.statistics import Statistics, merge, of_scores
from pipelines.distributions.value_counts import NOTHING, Counts
from pipelines.export.file_list import versions_in
from pipelines.features import FittedFeatures
from pipelines.prediction_log.log_folder import COLUMNS, LogFolder, as_utc
from pipelines.prediction_log.recompute import recompute
from pipelines.prediction_log.state_skew import measure_state_skew
from pipelines.prediction_log.summary import LogSummary, Period, summarise_log
from pipelines.storage.dataset import DataSplit
from pipelines.storage.filesystem import Where
from pipelines.storage.request_rows import check_requests
from recsys_attn.models import RankingModel
from serving.state.saved import SavedState

NO_LABELS = (
    "A log has no labels: whether the scores are calibrated or in a good order cannot be said "
    "from it. `recsys-attn online` says it of rows that `join` has given their outcomes."
)


@dataclass(frozen=True)
class SkewOptions:
    """The options of `recsys-attn skew`.

    Attributes:
        log: Folder of the log.
        reference: Rows or a log to compare with. None: the train split.
        model: Model name in the log. None: the export's name.
        since, until: Only calls in this time.
        period: Period of the drift over time.
        sample: Number of calls to score again, and of users whose events are replayed.
        versions: Versions in the log that belong to this run. Empty: those of its export folder.
        tolerance: Largest allowed score difference. None: the export's.
        seed: Seed of the sample.
        events: Folder of the events that a store got after `ingest`: the values that it gave are
            compared with a replay of them, for `sample` users. None: they are not compared.
    """

    log: Where
    reference: Where | None = None
    model: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    period: Period = "day"
    sample: int = 200
    versions: tuple[int, ...] = ()
    tolerance: float | None = None
    seed: int = 0
    events: Path | None = None


@dataclass(frozen=True)
class Baseline:
    """The run to compare a log with.

    Attributes:
        fitted, model: Its transforms and model.
        train: Statistics of its train split.
        request: Column of the request id in its data.
        evaluation: Folder of its evaluation, if there is one.
        exported: Versions in its export folder of this model.
        name: Name of its export.
        tolerance: Tolerance of its export's parity check.
        state: Folder of its state; there is one if it has features over time.
    """

    fitted: FittedFeatures
    model: RankingModel
    train: Statistics
    request: str | None
    evaluation: Path | None
    exported: frozenset[int]
    name: str
    tolerance: float
    state: Path


def measure_skew(options: SkewOptions, baseline: Baseline, progress: Progress) -> dict[str, Any]:
    """Measures drift and skew; returns plain data for the report.

    Raises:
        PipelineError: The log or the reference cannot be read, or has no call of the model.
    """
    fitted = baseline.fitted
    log = LogFolder.open(options.log)
    model = log.choose_model(options.model, baseline.name)
    versions = frozenset(options.versions) or baseline.exported
    try:
        reference, what = _reference(options, baseline, progress)
        served = _served(log, model, options, baseline, versions, progress, options.sample)
    finally:
        progress.stop()
    if not served.periods:
        reasons = ", ".join(sorted(served.unreadable)) or "there are none in this time"
        raise PipelineError(f"{log.storage.name} has no usable call of {model!r}: {reasons}.")
    statistics = served.statistics
    features = {
        feature.name: compare_feature(fitted, feature, reference, statistics)
        for feature in fitted.schema.features
    }
    scores, of_what = _reference_scores(baseline, reference)
    tasks = {
        task.name: compare_task(
            task.name,
            scores.get(f"task/{task.name}/scores", NOTHING),
            # Scores that only order candidates have no rate to agree with.
            label_rate(baseline.train, task.name) if task.has_probabilities else None,
            statistics,
        )
        for task in fitted.schema.tasks
    }
    return {
        "log": log.storage.name,
        "model": model,
        "reference": what,
        "score_reference": of_what,
        "first": str(served.first),
        "last": str(served.last),
        "calls": _calls(served),
        "rows": sum(served.rows.values()),
        "unreadable": dict(served.unreadable.most_common()),
        "features": features,
        "tasks": tasks,
        "shifted": [*flagged(features), *(f"score of {name}" for name in flagged(tasks))],
        "period": options.period,
        "periods": _periods(served, fitted, reference, scores),
        "recomputed": _recomputed(served, versions, options, baseline),
        "notes": [NO_LABELS],
        "state": _state(log, model, options, baseline, versions),
    }


def has_failed(result: dict[str, Any]) -> bool:
    """Whether a feature or score has shifted, or a recomputed score or a store's value differs."""
    state = result["state"]
    differs = state is not None and bool(state["unequal"] or state["notes"])
    return bool(result["shifted"]) or result["recomputed"]["over"] > 0 or differs


def save_skew(result: dict[str, Any], target: Path) -> None:
    """Writes the JSON file, with null for infinite numbers."""
    with atomic_file(target) as temporary:
        write_json(temporary, without_nan(result))


def exported_versions(folder: Path, train: str) -> frozenset[int]:
    """Versions of an export folder that belong to the training with this fingerprint."""
    manifests = {int(path.name): path / MANIFEST for path in versions_in(folder)}
    return frozenset(
        version
        for version, file in manifests.items()
        if file.exists() and read_json(file).get("inputs", {}).get("train") == train
    )


def _reference(
    options: SkewOptions, baseline: Baseline, progress: Progress
) -> tuple[Statistics, str]:
    if options.reference is None:
        return baseline.train, "the train split"
    split = DataSplit(options.reference, features=baseline.fitted.raw_schema)
    name = split.footers.storage.name
    if set(COLUMNS) <= set(split.columns):
        log = LogFolder.open(options.reference)
        model = log.choose_model(options.model, baseline.name)
        unlimited = SkewOptions(options.reference)
        served = _served(log, model, unlimited, baseline, frozenset(), progress, 0)
        return served.statistics, f"the log {name}"
    request = baseline.request if baseline.request in split.columns else None
    if request is not None:
        check_requests(split, request)
    advance = progress.start("reading", split.rows)
    return of_split(split, baseline.fitted, request, advance, labels=False), name


def _served(
    log: LogFolder,
    model: str,
    options: SkewOptions,
    baseline: Baseline,
    versions: frozenset[int],
    progress: Progress,
    sample: int,
) -> LogSummary:
    return summarise_log(
        log.entries(model, as_utc(options.since), as_utc(options.until)),
        baseline.fitted,
        baseline.request is not None,
        options.period,
        sample,
        options.seed,
        versions,
        progress.start("reading", None),
    )


def _state(
    log: LogFolder,
    model: str,
    options: SkewOptions,
    baseline: Baseline,
    versions: frozenset[int],
) -> dict[str, Any] | None:
    """The values that a store gave against a replay; None without events."""
    if options.events is None:
        return None
    entries = log.entries(model, as_utc(options.since), as_utc(options.until))
    saved = SavedState.open(baseline.state)
    return measure_state_skew(entries, saved, options.events, options.sample, versions)


def _reference_scores(baseline: Baseline, reference: Statistics) -> tuple[Statistics, str]:
    """Reference scores: those of a log, of the evaluation, or none."""
    logged = {name: part for name, part in reference.items() if name.endswith("/scores")}
    if logged:
        return logged, "the log of the reference"
    if baseline.evaluation is None:
        return {}, "the label rate of the train split"
    path = baseline.evaluation / PREDICTIONS
    statistics: Statistics = {}
    names = [task.name for task in baseline.fitted.schema.tasks]
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=[f"{name}/score" for name in names]):
            scores = {name: batch[f"{name}/score"].to_numpy() for name in names}
            statistics = merge(statistics, of_scores(scores))
    return statistics, "the evaluation"


def _calls(served: LogSummary) -> list[dict[str, Any]]:
    return [
        {"method": method, "signature": signature, "version": version, "calls": calls}
        for (method, signature, version), calls in sorted(served.calls.items())
    ]


def _periods(
    served: LogSummary, fitted: FittedFeatures, reference: Statistics, scores: Statistics
) -> list[dict[str, Any]]:
    """Drift for each period."""
    entries = []
    for begin, statistics in served.periods.items():
        features = {}
        for feature in fitted.schema.features:
            part = compare_feature(fitted, feature, reference, statistics)
            features[feature.name] = {"psi": part["psi"], "status": part["status"]}
        tasks = {}
        for task in fitted.schema.tasks:
            of_task: Counts = scores.get(f"task/{task.name}/scores", NOTHING)
            compared = compare_task(task.name, of_task, None, statistics)
            tasks[task.name] = {"psi": compared["psi"], "mean": compared["mean"]["served"]}
        entries.append(
            {"begin": begin, "rows": served.rows[begin], "features": features, "tasks": tasks}
        )
    return entries


def _recomputed(
    served: LogSummary, versions: frozenset[int], options: SkewOptions, baseline: Baseline
) -> dict[str, Any]:
    logged = sorted({version for _, _, version in served.calls})
    tolerance = baseline.tolerance if options.tolerance is None else options.tolerance
    comparison = recompute(served.sample.items(), baseline.fitted, baseline.model, tolerance)
    comparison["versions"] = sorted(versions & set(logged))
    comparison["note"] = None
    if not comparison["calls"]:
        known = ", ".join(map(str, sorted(versions))) or "none"
        comparison["note"] = (
            f"No score was computed again: the log has version {', '.join(map(str, logged))}, and "
            f"this run's model was exported as {known}. Name its version with --version."
        )
    worst = [part["max_abs_difference"] for part in comparison["tasks"].values()]
    comparison["max_abs_difference"] = (
        max(worst) if worst and all(map(math.isfinite, worst)) else None
    )
    comparison["over"] = int(np.sum([part["over"] for part in comparison["tasks"].values()]))
    return comparison
