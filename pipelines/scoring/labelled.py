"""Labels and scores of a split, a row group at a time, in this process or by workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import NamedTuple

from pipelines.engines import Engine
from pipelines.feed import Feed
from pipelines.feed.chunk import labels_of
from pipelines.scoring.score_files import Load
from pipelines.scoring.scorer import Scorer, Scores, concatenated
from pipelines.storage.dataset import Reader
from pipelines.storage.footers import Footers


class Scorers(NamedTuple):
    """An engine, and how its workers load the transforms and the model."""

    engine: Engine
    load: Load


def score_split(
    feed: Feed, workers: Scorers, advance: Callable[[int], None]
) -> tuple[Scores, Scores]:
    """Labels (NaN is unknown) and scores of all rows by task, the same with every engine.

    Args:
        feed: The split, its columns and its requests.
        workers: Score the row groups.
        advance: Shows the rows done.
    """
    footers = feed.split.footers
    work = partial(_scoring, footers, feed.column_names, feed.request, workers.load)
    row_groups: list[tuple[Scores, Scores]] = []
    with closing(workers.engine.map_ordered(work, range(len(footers)))) as parts:
        for part in parts:
            row_groups.append(part)
            advance(len(next(iter(part[0].values()))))
    labels, scores = map(concatenated, zip(*row_groups, strict=True))
    return labels, scores


@contextmanager
def _scoring(
    footers: Footers, columns: list[str], request: str | None, load: Load
) -> Iterator[Callable[[int], tuple[Scores, Scores]]]:
    """Yields a function from the number of a row group to its labels and scores."""
    fitted, model = load()
    scorer, tasks = Scorer(model), fitted.schema.tasks

    def scored(number: int) -> tuple[Scores, Scores]:
        table = reader.read([number])
        labels = labels_of(table, tasks)
        by_task = {task.name: column for task, column in zip(tasks, labels.T, strict=True)}
        return by_task, scorer.score_table(table, fitted, request)

    with Reader(footers, columns) as reader:
        yield scored
