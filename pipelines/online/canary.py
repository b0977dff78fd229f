"""Compares a canary with the stable version by the rows that both served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from pipelines.experiment.config import Experiment
from pipelines.metrics.intervals import separated
from pipelines.metrics.metric_inputs import group_codes
from pipelines.online.canary_gate import CanaryGate
from pipelines.online.cells import StoreAnswers, cells_of
from pipelines.online.metric_gates import TwoVersions, metric_gates, metrics_of
from pipelines.online.missing_gates import Hours, missing_gates
from pipelines.online.missing_sums import MissingSums, sums_of
from pipelines.online.row_files import VERSION, HourRows, RowFiles
from pipelines.online.served_rows import RowColumns, ServedRows
from pipelines.online.store_gates import store_gates
from pipelines.report.gate_words import FAILED
from pipelines.storage.filesystem import Where

LEVEL = 0.05  # share of equal canaries that all gates together may refuse
_OF_METRICS = 0.8  # of the level; missing and late values are seen at any level


@dataclass(frozen=True)
class VersionComparison:
    """A canary beside the stable version.

    Attributes:
        stable_rows, canary_rows: Labelled rows of each.
        gates: The decided gates.
    """

    stable_rows: int
    canary_rows: int
    gates: tuple[CanaryGate, ...]

    @property
    def has_failed(self) -> bool:
        """Whether a gate failed."""
        return any(gate.result == FAILED for gate in self.gates)


@dataclass(frozen=True)
class CanaryRows:
    """The rows by which a canary is decided.

    Attributes:
        folder: Folder of the served rows with their outcomes, as `join` writes it.
        experiment: The experiment of the run.
        stable, canary: Both versions.
        since: The time at which the canary was published.
    """

    folder: Where
    experiment: Experiment
    stable: int
    canary: int
    since: datetime

    def labelled(self) -> int:
        """The number of the canary's rows, until a canary with enough of them is decided."""
        files = RowFiles.open(self.folder)
        hours = files.hours((), (self.since, None), [self.canary])
        return sum(hour.table.num_rows for hour in hours)

    def compared(self, max_degraded: float, max_lag: float) -> VersionComparison:
        """Decides the gates of the canary.

        All gates together refuse at most 5 of 100 canaries that equal the stable version, however
        many features, tasks and hours there are: each gate is one test at its share of 0.05
        (Bonferroni), four fifths for the metrics and one for missing values and the store. It
        holds for one decision: do not ask again with more rows until the answer pleases.

        Args:
            max_degraded: The largest share of degraded answers.
            max_lag: Seconds by which the state of 99 % of the answers may be behind its log.

        Raises:
            PipelineError: The rows cannot be read, or are of another run.
        """
        files = RowFiles.open(self.folder)
        columns = RowColumns.of(self.experiment, files.columns)
        rows, store = ServedRows(columns), StoreAnswers()
        missing: dict[str, dict[str, tuple[MissingSums, MissingSums]]] = {}
        times = (self.since, None)
        for hour in files.hours(columns.read, times, [self.stable, self.canary]):
            answers = rows.add(hour)
            of_canary = cells_of(hour, answers, ()).get(self.canary)
            if of_canary is not None:
                store.add_all(of_canary.store)
            name = str(hour.hour.astype("datetime64[m]")).replace("T", " ")
            for feature, sums in self._missing(hour, columns).items():
                missing.setdefault(feature, {})[name] = sums
        is_canary, every = rows.versions == self.canary, np.arange(len(rows))
        tasks = {
            task.name: TwoVersions(
                rows.labels(place, every),
                rows.scores(place, every),
                rows.groups,
                is_canary,
                task.has_probabilities,
            )
            for place, task in enumerate(columns.tasks)
        }
        gates = tuple(decided(tasks, missing, store, max_degraded, max_lag))
        canary_rows = int(is_canary.sum())
        return VersionComparison(len(rows) - canary_rows, canary_rows, gates)

    def _missing(
        self, hour: HourRows, columns: RowColumns
    ) -> dict[str, tuple[MissingSums, MissingSums]]:
        names = hour.table[columns.group].combine_chunks()
        users = separated(group_codes(names, np.zeros(len(names))))
        is_canary = hour.table[VERSION].to_numpy() == self.canary
        return sums_of(hour.missing(columns.features), users, is_canary)


def decided(
    tasks: Mapping[str, TwoVersions],
    missing: Mapping[str, Hours],
    store: StoreAnswers,
    max_degraded: float,
    max_lag: float,
) -> Iterator[CanaryGate]:
    """Decides all gates of a canary, each at its share of the level of 0.05.

    Args:
        tasks: The rows of each task.
        missing: Sums of missing values by feature and hour.
        store: What a store gave the canary's answers.
        max_degraded, max_lag: As for `CanaryRows.compared`.
    """
    count = sum(len(metrics_of(rows.probabilities)) for rows in tasks.values())
    for task, rows in tasks.items():
        yield from metric_gates(task, rows, LEVEL * _OF_METRICS / count)
    level = LEVEL * (1 - _OF_METRICS) / (2 * len(missing) + 2)
    for feature, hours in missing.items():
        yield from missing_gates(feature, hours, level)
    yield from store_gates(store, max_degraded, max_lag, level)
