"""The TOML file of a search: an experiment, the ranges of some of its keys, and a metric."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from pipelines.common.errors import PipelineError
from pipelines.common.toml_table import TomlTable
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.experiment.file import read_toml, validated
from serving.state.errors import DataError

Settings = dict[str, Any]  # values by dotted key


class Span(TomlTable):
    """All numbers between two ends; whole numbers where both ends are.

    Attributes:
        low: The smallest value.
        high: The largest value.
        log: Whether 1 to 10 is as likely as 10 to 100: for learning rates and penalties.
    """

    low: int | float
    high: int | float
    log: bool = False

    @model_validator(mode="after")
    def _check_ends(self) -> Span:
        if self.low >= self.high:
            raise ValueError(
                f"`low` must be below `high`. Received: low={self.low} and high={self.high}"
            )
        if self.log and self.low <= 0:
            raise ValueError(f"`log = true` needs a `low` above 0. Received: low={self.low}")
        return self

    @property
    def is_whole(self) -> bool:
        """Whether the values are whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to check before any training."""
        return (self.low, self.high) if self.is_whole else (float(self.low), float(self.high))


Range = Span | tuple[Any, ...]


class Search(TomlTable):
    """The file.

    Attributes:
        experiment: The experiment; a path from this file.
        trials: Number of settings to train.
        task: The task that is measured. None: the mean over all tasks.
        metric: The metric of the validation rows, as metrics.json names it: `auc`, `gauc`,
            `logloss`, `ndcg@10` or one of your own.
        minimise: Whether smaller values of a metric of your own are better.
        ranges: By key of the experiment's `model` and `training`, a list of values, or the table
            of a `Span`.
    """

    experiment: str
    trials: int = Field(default=30, ge=1)
    task: str | None = None
    metric: str = "auc"
    minimise: bool | None = None
    ranges: dict[str, Any] = Field(min_length=1)


class LoadedSearch(NamedTuple):
    """A search, the place of its file, from which its experiment is read, and its ranges by key."""

    path: Path
    search: Search
    ranges: dict[str, Range]

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.stem

    def experiment(self, settings: Mapping[str, Any] | None = None) -> Experiment:
        """The experiment with these settings; None: as it is."""
        return load_experiment(self.path.parent / self.search.experiment, dict(settings or {}))

    def check(self) -> None:
        """Checks the ends of all ranges, and the choices of lists.

        Raises:
            PipelineError: The experiment has no such key, or refuses a value of it.
        """
        self.experiment()
        before: Settings = {}
        for key, span in self.ranges.items():
            ends = span.ends if isinstance(span, Span) else span
            for value in ends:
                try:
                    self.experiment({**before, key: value})
                except DataError as error:
                    raise PipelineError(
                        f"{self.path}: `ranges`, {key} = {json.dumps(value)}: {error}"
                    ) from None
            if isinstance(span, Span) and span.is_whole:
                self._check_whole(key, span, before)
            before[key] = ends[0]

    def _check_whole(self, key: str, span: Span, before: Settings) -> None:
        """Checks that a range of whole numbers is not that of a key that takes any number."""
        try:
            self.experiment({**before, key: span.high - 0.5})
        except DataError:
            return
        raise PipelineError(
            f"{self.path}: `ranges`, {key}: whole ends give whole numbers, and the key takes any. "
            f"Write low = {float(span.low)} and high = {float(span.high)}, or a list of values."
        )


def load_search(path: Path) -> LoadedSearch:
    """Reads and checks the file of a search.

    Raises:
        PipelineError: The file or its experiment does not exist or is wrong.
    """
    search = validated(Search, read_toml(path, "search"), str(path))
    ranges = {key: _range(path, key, value) for key, value in _joined(search.ranges)}
    loaded = LoadedSearch(path, search, ranges)
    loaded.check()
    return loaded


def _joined(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values, of `model.width`, which TOML nests, and of `"model.width"`."""
    for name, value in table.items():
        if isinstance(value, dict) and not value.keys() & set(Span.model_fields):
            yield from _joined(value, f"{before}{name}.")
        else:
            yield before + name, value


def _range(path: Path, key: str, value: Any) -> Range:
    """The range of a key."""
    if key.partition(".")[0] not in ("model", "training"):
        raise PipelineError(
            f"{path}: `ranges` names {key!r}; expected keys of `model` or `training`, as any other "
            "would change the rows that trials are compared by."
        )
    if isinstance(value, list) and len(value) > 1:
        return tuple(value)
    if not isinstance(value, dict):
        raise PipelineError(
            f"{path}: `ranges`, {key}: expected a list of two values or more, or a table with "
            f"`low` and `high`. Received: {json.dumps(value)}"
        )
    return validated(Span, value, str(path), within=f"ranges.{key}.")
