"""The audit of an exported model on labelled rows, from its own signatures."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from pipelines.common.artifacts import atomic_directory, versions
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.distributions.reference import label_numbers
from pipelines.evaluation.evaluate import save_evaluation, summary
from pipelines.evaluation.evaluated_rows import group_numbers, sampled_requests
from pipelines.evaluation.importance import permutation_importance
from pipelines.evaluation.pairs import number_of_passes, pair_interactions
from pipelines.exported.explanations import explanations
from pipelines.exported.exported_model import ExportedModel
from pipelines.exported.labelled_rows import LabelledRows
from pipelines.metrics import task_metrics
from pipelines.metrics.intervals import cluster_codes
from pipelines.report.console import print_evaluation
from pipelines.report.html import write_report
from pipelines.storage.request_rows import request_starts

PAGE = "report.html"
IMPORTANCE_ROWS, ATTENTION_ROWS = 20_000, 5_000


def audit_export(
    export: Path, rows: LabelledRows, target: Path, console: Console, seed: int
) -> Path:
    """Writes an evaluation of an exported model and its page.

    What needs the inside of the model (functions and removal of heads, relevance) is not in it.

    Args:
        export: The folder of the version.
        rows: The labelled rows.
        target: The folder to write: metrics.json, predictions.parquet and the page.
        console: Shows the progress and the metrics.
        seed: Seed of the samples.

    Returns:
        The page.

    Raises:
        PipelineError: The folder is no export, or the rows do not fit.
    """
    model = ExportedModel(export)
    rows.check(model.schema)
    audit = _Audit(model, rows, Progress(console), seed)
    predictions, metrics = audit.evaluated()
    with atomic_directory(target) as folder:
        save_evaluation(folder, predictions, metrics)
        write_report(folder, folder / PAGE)
    print_evaluation(console, metrics)
    return target / PAGE


@dataclass
class _Audit:
    model: ExportedModel
    rows: LabelledRows
    progress: Progress
    seed: int

    def evaluated(self) -> tuple[pa.Table, dict[str, Any]]:
        """The predictions and the content of metrics.json."""
        columns = self._scored()
        requests, group = columns["request"], self.rows.group or self.rows.request
        groups = None if group is None else group_numbers(columns["group"])
        clusters = requests.astype(float) if groups is None else groups
        schema, tasks = self.model.schema, {}
        labels = {task.name: columns[f"{task.name}/label"] for task in schema.tasks}
        for task in schema.tasks:
            try:
                tasks[task.name] = task_metrics(
                    labels[task.name],
                    columns[f"{task.name}/score"],
                    groups=groups,
                    requests=None if self.rows.request is None else requests,
                    probabilities=task.has_probabilities,
                )
            except ValueError as error:
                raise PipelineError(
                    f"Task {task.name!r}, column {task.label_column!r}: {error}."
                ) from None
            tasks[task.name] |= {"own": {}, "segments": []}
        for name, entries in self._importance(requests, clusters, labels).items():
            tasks[name]["importance"] = entries
        manifest = self.model.manifest
        attention = self._attention(requests, clusters)
        metrics = {
            "name": manifest["name"],
            "model": f"export, version {manifest['version']}",
            **{name: manifest.get(name) for name in ("seed", "config_hash", "data_hash")},
            "versions": versions(),
            "training": [],
            **summary(self.rows.source.name, requests, group, tasks, attention),
        }
        arrays = {n: pa.array(v, from_pandas=True) for n, v in columns.items() if n != "group"}
        if group is not None:
            arrays["group"] = columns["group"]
        return pa.table(arrays), metrics

    def _scored(self) -> dict[str, Any]:
        """Request, group, labels and scores of all rows."""
        parts: dict[str, list[Any]] = defaultdict(list)
        ids = []
        count = self.rows.count(self.model.schema)
        advance = self.progress.start(f"scoring {self.rows.source.name}", count)
        group = self.rows.group or self.rows.request
        try:
            for table in self.rows.batches(self.model.schema):
                for task, scores in self.model.score(table).items():
                    parts[f"{task}/score"].append(scores)
                for each in self.model.schema.tasks:
                    parts[f"{each.name}/label"].append(label_numbers(table, each))
                if group is not None:
                    parts["group"].append(table[group])
                ids.append(table.select([self.rows.request] if self.rows.request else []))
                parts["count"].append(len(table))
                advance(len(table))
        finally:
            self.progress.stop()
        counts = parts.pop("count", [])
        if not counts:
            raise PipelineError(f"{self.rows.source} has no rows.")
        groups = parts.pop("group", None)
        columns: dict[str, Any] = {name: np.concatenate(each) for name, each in parts.items()}
        if groups is not None:
            chunks = [chunk for column in groups for chunk in column.chunks]
            columns["group"] = pa.chunked_array(chunks).combine_chunks()
        if self.rows.request is None:
            return {"request": np.arange(sum(counts)), **columns}
        lengths = np.diff(request_starts(pa.concat_tables(ids), self.rows.request))
        return {"request": np.repeat(np.arange(len(lengths)), lengths), **columns}

    def _importance(
        self, requests: NDArray[Any], clusters: NDArray[Any], labels: dict[str, NDArray[Any]]
    ) -> dict[str, list[dict[str, Any]]]:
        is_drawn, table = self._sampled(requests, IMPORTANCE_ROWS)
        advance = self.progress.start("importance of features", None)
        try:
            return permutation_importance(
                self.model.score,
                table,
                self.model.schema,
                self.rows.request,
                {task: label[is_drawn] for task, label in labels.items()},
                clusters[is_drawn],
                self.seed,
                advance,
            )
        finally:
            self.progress.stop()

    def _attention(self, requests: NDArray[Any], clusters: NDArray[Any]) -> dict[str, Any]:
        """Interactions of features, and what the signature `rank_explained` says."""
        is_drawn, table = self._sampled(requests, ATTENTION_ROWS)
        schema, request = self.model.schema, self.rows.request
        codes = cluster_codes(clusters[is_drawn], np.zeros(int(is_drawn.sum())))
        try:
            advance = self.progress.start(
                "interaction of features", number_of_passes(schema) * len(table)
            )
            pairs = pair_interactions(
                self.model.score, table, schema, request, codes, self.seed, advance
            )
        finally:
            self.progress.stop()
        entries = [pair.entry for pair in pairs]
        advance = self.progress.start("explanations", len(table))
        try:
            return {"pairs": entries, **explanations(self.model, table, request, codes, advance)}
        finally:
            self.progress.stop()

    def _sampled(self, requests: NDArray[Any], count: int) -> tuple[NDArray[np.bool_], pa.Table]:
        """Some whole requests, of about `count` rows."""
        batches = self.rows.batches(self.model.schema)
        drawn, table = sampled_requests(batches, requests, count, self.seed, at_least_one=True)
        return drawn, table.combine_chunks()
