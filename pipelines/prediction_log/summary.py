"""One pass over a log: statistics by period, and a sample of the calls to score again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import Literal

from pipelines.distributions.statistics import Statistics, merge, of_features, of_scores
from pipelines.features import FittedFeatures
from pipelines.prediction_log.bottom_k import BottomK
from pipelines.prediction_log.decode import LoggedRequests, decode
from pipelines.prediction_log.log_folder import LoggedCall
from pipelines.prediction_log.messages import UnreadableCall

Period = Literal["day", "hour"]
_FORMATS: dict[str, str] = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:00"}
_AT_ONCE = 256  # calls whose features are transformed together


@dataclass
class LogSummary:
    """The summary of a log.

    Attributes:
        periods: Statistics by the start of the day or hour (UTC).
        rows: Number of candidates in each period.
        calls: Calls by method, signature and version, as `Predict rank 3`.
        unreadable: Calls that do not fit the model's schema, by reason.
        first, last: Times of the first and the last call.
        sample: Calls to score again.
    """

    sample: BottomK[tuple[LoggedCall, LoggedRequests]]
    periods: dict[str, Statistics] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    calls: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)
    first: datetime | None = None
    last: datetime | None = None

    @property
    def statistics(self) -> Statistics:
        """Statistics of all periods together."""
        return reduce(merge, self.periods.values(), {})


def summarise_log(
    entries: Iterable[LoggedCall],
    fitted: FittedFeatures,
    grouped: bool,
    period: Period,
    sample: int,
    seed: int,
    versions: frozenset[int],
    progress: Callable[[int], None],
) -> LogSummary:
    """Reads a log with a few hundred calls and the sample in memory.

    Args:
        entries: The calls.
        fitted: The model's transforms.
        grouped: Whether a request's context counts once, as in the reference, or once per
            candidate.
        period: Length of a period.
        sample: Number of calls of `versions` to keep for recomputation.
        seed: Seed of the sample.
        versions: Versions of the log that belong to the model.
        progress: Shows the calls done.
    """
    served = LogSummary(BottomK(sample, seed))
    waiting: dict[str, list[LoggedRequests]] = {}
    for entry in entries:
        progress(1)
        served.calls[entry.method, entry.signature, entry.version] += 1
        served.first = min(served.first or entry.time, entry.time)
        served.last = max(served.last or entry.time, entry.time)
        try:
            requests = decode(entry.log, fitted.raw_schema, grouped).with_items(fitted)
        except UnreadableCall as reason:
            served.unreadable[str(reason)] += 1
            continue
        if entry.version in versions and requests.scores:
            served.sample.add(entry.request_id, (entry, requests))
        label = entry.time.strftime(_FORMATS[period])
        waiting.setdefault(label, []).append(requests)
        if len(waiting[label]) == _AT_ONCE:
            _count(served, fitted, grouped, label, waiting.pop(label))
    for label, parts in waiting.items():
        _count(served, fitted, grouped, label, parts)
    served.periods = dict(sorted(served.periods.items()))
    return served


def _count(
    served: LogSummary,
    fitted: FittedFeatures,
    grouped: bool,
    label: str,
    parts: list[LoggedRequests],
) -> None:
    for tasks in {frozenset(part.scores) for part in parts}:
        together = LoggedRequests.concat(
            [part for part in parts if frozenset(part.scores) == tasks]
        )
        context = together.context if grouped else together.context_of_rows()
        counts = {
            **of_features(fitted, context, "context"),
            **of_features(fitted, together.candidates, "candidate"),
            **of_scores(together.scores),
        }
        served.periods[label] = merge(served.periods.get(label, {}), counts)
        served.rows[label] += together.rows
