"""Audits of an evaluated model on some of its rows: importance, relevance, attention, experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.audit.attention import audit_attention, removable_heads
from pipelines.audit.attention import number_of_passes as attention_passes
from pipelines.audit.experts import audited_gates
from pipelines.audit.relevance import number_of_passes as relevance_passes
from pipelines.audit.relevance import relevance
from pipelines.audit.sampled_rows import drawn_rows
from pipelines.common.progress import Progress
from pipelines.evaluation.budget import Audit, Budget
from pipelines.evaluation.evaluated_rows import EvaluatedRows, sampled_requests
from pipelines.evaluation.importance import permutation_importance, units
from pipelines.evaluation.pairs import (
    Pair,
    agreement_with_map,
    number_of_passes,
    pair_interactions,
)
from pipelines.experiment.config import Experiment
from pipelines.feed import Feed
from pipelines.feed.chunk import transform
from pipelines.metrics.intervals import cluster_codes
from pipelines.scoring.scorer import Scorer, Scores
from recsys_attn.models import RankingModel
from recsys_attn.models.ensemble import EnsembleTower

ByTask = dict[str, dict[str, Any]]
# The audits by the key of their rows: a name, and the rows below which they say too little.
ROWS = {
    "importance_rows": ("importance of features", 200),
    "attention_rows": ("attention", 200),
    "relevance_rows": ("relevance", 40),
}


@dataclass(frozen=True)
class Audits:
    """The further passes over some of the rows.

    Args:
        experiment: The experiment, with the numbers of rows.
        feed: The split.
        scorer: Scores tables.
        model: The model.
        rows: What was read of the rows.
        labels: The labels by task.
        progress: Shows the rows done.
        trained: Rows of the training, of all epochs; None: the audits take all rows.
    """

    experiment: Experiment
    feed: Feed
    scorer: Scorer
    model: RankingModel
    rows: EvaluatedRows
    labels: Mapping[str, NDArray[Any]]
    progress: Progress
    trained: int | None = None

    @cached_property
    def taken(self) -> dict[str, int]:
        """The rows that each audit takes, by the key of the most that it may take."""
        options, rows = self.experiment.evaluation, self.feed.split.rows
        most = {key: min(getattr(options, key), rows) for key in ROWS}
        if self._is_ensemble:  # attention and relevance are those of its members
            most |= {"attention_rows": 0, "relevance_rows": 0}
        keys = [key for key, count in most.items() if count]
        if self.trained is None or not keys:
            return most
        budget = Budget(options.budget, self.trained)
        audits = [self._audit(key, most[key]) for key in keys]
        taken = budget.rows(audits)
        if left_out := budget.words(audits, taken):
            self.progress.finish(left_out)
        return {**most, **dict(zip(keys, taken, strict=True))}

    def _audit(self, key: str, rows: int) -> Audit:
        name, fewest = ROWS[key]
        return Audit(name, rows, self._passes(key), fewest)

    def _passes(self, key: str) -> int:
        """The passes of each row of an audit through the model."""
        schema = self.model.schema
        if key == "importance_rows":
            return 1 + len(units(schema))
        heads = self._heads
        if key == "relevance_rows":
            return relevance_passes(schema, sum(count for count in heads if count > 1))
        pairs = number_of_passes(schema) if heads or self.model.explanations else 0
        return attention_passes(sum(heads)) + pairs

    @cached_property
    def _heads(self) -> list[int]:
        return list(removable_heads(self.model).values())

    def of_tasks(self) -> ByTask:
        """Importance and relevance of features and events, by task."""
        by_task: ByTask = {task: {} for task in self.labels}
        for task, entries in self._importance().items():
            by_task[task]["importance"] = entries
        for task, entry in self._relevance().items():
            by_task[task]["relevance"] = entry
        return by_task

    def attention(self) -> dict[str, Any] | None:
        """Audits attention heads, interactions of features, and the experts of each task.

        An ensemble has none of its own: they are those of its members.
        """
        is_drawn, table = self._sampled(self.taken["attention_rows"])
        if not is_drawn.any():
            return None
        chunk = transform(table, self.feed.fitted, self.feed.request, labelled=False)
        clusters, seed = self.rows.clusters[is_drawn], self.experiment.seed
        labels = {task: label[is_drawn] for task, label in self.labels.items()}
        keras.utils.set_random_seed(seed)
        untrained = type(self.model).from_config(self.model.get_config())
        try:
            advance = self.progress.start("attention", None)
            audit = audit_attention(self.model, untrained, chunk, labels, clusters, advance)
        finally:
            self.progress.stop()
        gates = audit.pop("gates")
        if not audit["places"] and not gates:
            return None
        codes = cluster_codes(clusters, np.zeros(len(clusters)))
        pairs = self._pairs(table, codes)
        for place in audit["places"]:
            if "map" in place:
                shares = np.array(place["map"], float)
                place["agreement"] = agreement_with_map(pairs, place["fields"], shares)
        return {
            **audit,
            "pairs": [pair.entry for pair in pairs],
            "experts": self._experts(gates, codes, is_drawn, audit["places"]) if gates else None,
        }

    def _experts(
        self,
        gates: Mapping[str, NDArray[Any]],
        codes: NDArray[Any],
        is_drawn: NDArray[np.bool_],
        places: list[dict[str, Any]],
    ) -> dict[str, Any]:
        alike = [place["experts"] for place in places if "experts" in place]
        segments = [(cut.names, cut.codes[is_drawn]) for cut in self.rows.cuts]
        return audited_gates(gates, codes, segments, np.array(alike[0]) if alike else None)

    def _pairs(self, table: pa.Table, codes: NDArray[Any]) -> list[Pair]:
        schema, request, seed = self.feed.fitted.schema, self.feed.request, self.experiment.seed
        passes = number_of_passes(schema)
        try:
            advance = self.progress.start("interaction of features", passes * len(table))
            return pair_interactions(self._score, table, schema, request, codes, seed, advance)
        finally:
            self.progress.stop()

    def _importance(self) -> dict[str, list[dict[str, Any]]]:
        is_drawn, table = self._sampled(self.taken["importance_rows"])
        if not is_drawn.any():
            return {}
        schema = self.feed.fitted.schema
        try:
            return permutation_importance(
                self._score,
                table,
                schema,
                self.feed.request,
                {task: label[is_drawn] for task, label in self.labels.items()},
                self.rows.clusters[is_drawn],
                self.experiment.seed,
                self.progress.start("importance of features", len(table) * len(units(schema))),
            )
        finally:
            self.progress.stop()

    def _relevance(self) -> ByTask:
        options, seed = self.experiment.evaluation, self.experiment.seed
        if not self.taken["relevance_rows"]:
            return {}
        drawn, table = drawn_rows(self.feed, self.taken["relevance_rows"], seed)
        clusters = cluster_codes(self.rows.clusters, self.rows.requests)
        try:
            advance = self.progress.start("relevance of fields and events", len(table))
            of_rows = table, self.feed.fitted, clusters[drawn]
            return relevance(self.model, *of_rows, seed, options.layer_wise_relevance, advance)
        finally:
            self.progress.stop()

    @property
    def _is_ensemble(self) -> bool:
        return isinstance(self.model.tower, EnsembleTower)

    def _score(self, table: pa.Table) -> Scores:
        return self.scorer.score_table(table, self.feed.fitted, self.feed.request)

    def _sampled(self, count: int) -> tuple[NDArray[np.bool_], pa.Table]:
        """Some whole requests, of about `count` rows: which rows, and their columns."""
        batches = self.feed.split.batches(self.feed.column_names)
        return sampled_requests(batches, self.rows.requests, count, self.experiment.seed)
