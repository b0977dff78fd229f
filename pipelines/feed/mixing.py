"""Measures how well the order of a training mixes sorted rows, and advises on a better one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Self

import numpy as np

from pipelines.feed.chunk import labels_of
from pipelines.feed.feed import Feed
from pipelines.feed.order import Order
from pipelines.storage.dataset import Reader
from pipelines.storage.request_rows import request_starts
from recsys_attn.schema import Task

_SEEN = 1.5  # deviations of batches beside those by chance, above which more shuffling helps


@dataclass(frozen=True)
class Mixing:
    """The labels of one task by row group.

    Batches are drawn from chunks of row groups. If the chunks' shares of positives differ, those of
    the batches do beyond chance: with `n` labels in a batch, `s^2 / n` the variance of its share by
    chance and `V` that between chunks, the deviations are `sqrt(1 + n V / s^2)` times as large.

    Args:
        known: Known labels of each row group.
        positives: Positive labels of each row group.
        chance: `s^2`: variance of a label, larger where the labels of a request are alike.
    """

    known: np.ndarray
    positives: np.ndarray
    chance: float

    @classmethod
    def read(cls, feed: Feed, task: Task) -> Self:
        """Reads the task's labels and the request column once."""
        split, request, known, positives = feed.split, feed.request, [], []
        columns = [task.label_column, task.mask, request]
        squares = np.zeros(3)
        with Reader(split.footers, [name for name in columns if name is not None]) as reader:
            for table, groups in reader.row_groups(range(len(split.footers))):
                label = labels_of(table, (task,))[:, 0]
                counts = ~np.isnan(label), label == 1
                begins = np.cumsum(groups) - groups
                of_groups = [np.add.reduceat(x, begins, dtype=np.int64) for x in counts]
                starts = request_starts(table, request)[:-1]
                n, y = (np.add.reduceat(x, starts, dtype=np.int64) for x in counts)
                known.append(of_groups[0])
                positives.append(of_groups[1])
                squares += (y * y).sum(), (y * n).sum(), (n * n).sum()
        of_all = np.concatenate(known), np.concatenate(positives)
        total = max(int(of_all[0].sum()), 1)
        share = of_all[1].sum() / total
        return cls(*of_all, float(squares @ [1, -2 * share, share**2]) / total)

    def deviation(self, order: Order, labels: float) -> float:
        """Deviation of the share of positives in a batch beside that by chance, which is 1.

        Args:
            order: The order of the row groups.
            labels: Known labels of a batch.
        """
        chunks = [chunk for shard in order.chunks(0) for chunk in shard]
        known = np.array([self.known[chunk].sum() for chunk in chunks])
        positives = np.array([self.positives[chunk].sum() for chunk in chunks])
        chunk_has = known > 0
        known, positives = known[chunk_has], positives[chunk_has]
        total = known.sum()
        if not total or not self.chance:
            return 1.0
        differences = positives / known - positives.sum() / total
        between = (known * differences**2).sum() - len(known) * self.chance
        return float(np.sqrt(1 + labels * max(between / total, 0.0) / self.chance))


def shuffle_advice(feed: Feed, tasks: tuple[Task, ...]) -> list[str]:
    """One sentence for each task whose labels a larger `shuffle_rows` would mix better.

    Args:
        feed: The training feed.
        tasks: The tasks.
    """
    order, split = feed.order, feed.split
    if split.rows <= order.shuffle_rows:  # mixed perfectly
        return []
    advice = []
    for task in tasks:
        mixing = Mixing.read(feed, task)
        labels = feed.batch_size * mixing.known.sum() / max(feed.counts.requests.sum(), 1)
        deviation, enough = mixing.deviation(order, labels), order
        if deviation < _SEEN:
            continue
        while enough.shuffle_rows < split.rows and mixing.deviation(enough, labels) >= _SEEN:
            enough = dataclasses.replace(enough, shuffle_rows=2 * enough.shuffle_rows)
        advice.append(
            f"the batches' shares of {task.name} vary {deviation:.1f} times as much as by chance: "
            f"the rows are sorted. Set `training.shuffle_rows` to {enough.shuffle_rows:,} or more"
        )
    return advice
