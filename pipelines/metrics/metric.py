"""A metric, and the registry of all metrics by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from pipelines.metrics.cluster_sums import Influence
from pipelines.metrics.scored_rows import ScoredRows
from recsys_attn.named_parts import NamedParts

# Parts of a report: its first table; its second one; segments; a segment against all other rows;
# two models on the same rows.
Where = Literal["summary", "more", "segments", "rest", "models"]
Better = Literal["higher", "lower", "one", "zero"]
Function = TypeVar("Function", bound=Callable[..., float])


@dataclass(frozen=True)
class Metric:
    """A number of one task's labelled rows, and what reports, gates and searches need to know.

    Args:
        name: The name in metrics.json, in gates and in searches.
        of: Computes it from `ScoredRows`, with its options. None: it has a value of segments only.
        influence: Computes it, and how far each cluster of rows moves it. With it the metric has
            intervals; segments and comparisons need it.
        label: Its name for a reader. Defaults to the name.
        note: An explanation in a few words; `{name}` is the value of another metric.
        where: The parts of a report that show it. Empty: it is computed where `evaluation.metrics`
            names it.
        better: Which values are better: those nearest to one or zero, or in a direction. None: not
            known.
        needs_probabilities: Whether the scores must be probabilities.
        unit: The rows that it compares: all of them, those of a group or those of a request.
        bounds: Its smallest and its largest value.
        chance: Its value for random scores, if improvements are measured from there.
        func: The function that computes it from arrays; its keyword arguments are options.
    """

    name: str
    of: Callable[..., float] | None = None
    influence: Callable[[ScoredRows], Influence] | None = None
    label: str = ""
    note: str = ""
    where: tuple[Where, ...] = ()
    better: Better | None = None
    needs_probabilities: bool = False
    unit: Literal["rows", "groups", "requests"] = "rows"
    bounds: tuple[float, float] = (-np.inf, np.inf)
    chance: float | None = None
    func: Callable[..., float] | None = None

    @property
    def title(self) -> str:
        """The label as the first words of a line."""
        label = self.label or self.name
        return label[0].upper() + label[1:]

    @property
    def computed_by(self) -> Callable[..., float]:
        """The function whose keyword-only arguments are options."""
        function = self.func or self.of
        if function is None:
            raise ValueError(f"The metric {self.name!r} needs `of` or `func`.")
        return function

    @property
    def is_of_all_rows(self) -> bool:
        """Whether every report has it for all rows."""
        return "summary" in self.where or "more" in self.where

    def is_of(self, rows: ScoredRows) -> bool:
        """Whether rows have it."""
        needed = {"rows": rows.labels, "groups": rows.groups, "requests": rows.requests}
        has_scores = rows.probabilities or not self.needs_probabilities
        return has_scores and needed[self.unit] is not None

    def value(self, rows: ScoredRows, **options: Any) -> float | None:
        """Returns its value; None if the rows do not define it."""
        if self.of is None or not self.is_of(rows):
            return None
        value = self.of(rows, **options)
        if not isinstance(value, int | float | np.number):
            raise ValueError(
                f"the metric {self.name!r} must return one number. Received: {value!r} of type "
                f"{type(value).__name__}"
            )
        return float(value) if np.isfinite(value) else None


class MetricRegistry(NamedParts[Metric]):
    """The metrics by name."""

    def add(self, *metrics: Metric) -> None:
        """Enters metrics that are computed from `ScoredRows`."""
        for metric in metrics:
            self.members[metric.name] = metric

    def register(
        self,
        name: str,
        *,
        label: str = "",
        better: Better | None = None,
        needs_probabilities: bool = False,
    ) -> Callable[[Function], Function]:
        """Returns the decorator that enters a function of labels and scores as a metric.

        The function gets the labels (0 or 1) and the scores of the labelled rows, both of shape
        (rows,), and returns a number. With an argument `requests` it also gets the number of each
        row's request. Its keyword-only arguments are options.

        Args:
            name: The name of the metric.
            label: Its name for a reader. Defaults to the name.
            better: `"higher"` or `"lower"`, so that a search needs no `minimise`.
            needs_probabilities: Whether tasks without probabilities have no such metric.

        Raises:
            ValueError: Another metric has this name.
        """
        enter = super().register(name)

        def entered(function: Function) -> Function:
            enter(function)
            self.members[name] = Metric(
                name,
                of=_of_arrays(function),
                label=label,
                better=better,
                needs_probabilities=needs_probabilities,
                unit="requests" if _takes_requests(function) else "rows",
                func=function,
            )
            return function

        return entered

    def where(self, *places: Where) -> list[Metric]:
        """Returns the metrics that all these parts of a report show."""
        return [metric for metric in self.values() if set(places) <= set(metric.where)]

    @property
    def compared_in_segments(self) -> list[Metric]:
        """The metrics by which two models are compared in a segment."""
        return self.where("segments", "models")

    @property
    def of_all_rows(self) -> list[Metric]:
        """The metrics that every report has for all rows."""
        return [metric for metric in self.values() if metric.is_of_all_rows]


METRICS = MetricRegistry("metric")


def values_of(rows: ScoredRows, metrics: Iterable[Metric]) -> dict[str, float | None]:
    """Returns the value of each metric; None if the rows do not define it."""
    return {metric.name: metric.value(rows) for metric in metrics}


def _of_arrays(function: Callable[..., float]) -> Callable[..., float]:
    def of(rows: ScoredRows, **options: Any) -> float:
        if _takes_requests(function):
            options["requests"] = rows.requests
        return function(rows.labels, rows.scores, **options)

    return of


def _takes_requests(function: Callable[..., float]) -> bool:
    return "requests" in inspect.signature(function).parameters
