"""Made data: ids as skewed as a log's, and labels of a hidden model that can be learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.peers.settings import FIELDS, HISTORY, RESERVED, TASKS, Settings

EXPONENT = 1.05
TEST_ROWS = 100_000
PAIRS, TOPICS, FAVOURITES = 8, 32, 3
PARTS = ("train", "test")


@dataclass(frozen=True)
class Batch:
    """B requests of T candidates; T is 1 in all but the benchmark of requests.

    Attributes:
        context: User and past items `(B, 1 + history)`; None without a history.
        candidate: Ids `(B, T, columns)`.
        labels: `(B, T, tasks)`.
    """

    context: np.ndarray | None
    candidate: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.candidate)

    def __getitem__(self, rows: slice | np.ndarray) -> Batch:
        context = None if self.context is None else self.context[rows]
        return Batch(context, self.candidate[rows], self.labels[rows])

    def cut(self, size: int) -> Iterator[Batch]:
        """Batches of that size; the last one may have fewer rows."""
        return (self[begin : begin + size] for begin in range(0, len(self), size))


def load(settings: Settings, part: str) -> Batch:
    """The rows of the training or of the held-out part."""
    folder = Path(settings.data)
    context = np.load(folder / f"{part}_context.npy") if settings.has_history else None
    labels = np.load(folder / f"{part}_labels.npy")[:, : len(settings.tasks)]
    return Batch(
        context,
        np.load(folder / f"{part}_candidate.npy")[:, None],
        np.ascontiguousarray(labels[:, None]),
    )


def save(settings: Settings, rows: int, test_rows: int = TEST_ROWS, seed: int = 0) -> None:
    """Makes both parts in the folder of the settings."""
    folder, rng = Path(settings.data), np.random.default_rng(seed)
    folder.mkdir(parents=True)
    make = _history if settings.has_history else _fields
    arrays, logits = make(settings.table_rows, rows + test_rows, rng)
    arrays["labels"] = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype("float32")
    arrays["logits"] = logits
    for name, values in arrays.items():
        for part, rows_of_part in zip(PARTS, np.split(values, [rows]), strict=True):
            np.save(folder / f"{part}_{name}.npy", rows_of_part)


def true_logits(settings: Settings) -> np.ndarray:
    """Those that the held-out labels were drawn from, `(rows, tasks)`."""
    return np.load(Path(settings.data) / "test_logits.npy")[:, : len(settings.tasks)]


def ranks(size: int, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers below `size`, r with a probability of about `(r + 1) ** -EXPONENT`."""
    power = 1 - EXPONENT
    numbers = (((size + 1.0) ** power - 1) * rng.random(rows) + 1) ** (1 / power)
    return np.minimum(numbers.astype("int32") - 1, size - 1)


def _fields(
    size: int, rows: int, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Effects of each id, which the tasks share in part, and of pairs of fields."""
    known = size - RESERVED
    ids = np.empty((rows, FIELDS), "int32")
    main, pairs, before = np.zeros((rows, len(TASKS))), np.zeros(rows), np.zeros(rows)
    for field in range(FIELDS):
        drawn = ranks(known, rows, rng)
        ids[:, field] = rng.permutation(known)[drawn] + RESERVED
        shared, of_task = rng.normal(size=(known, 1)), rng.normal(size=(known, len(TASKS)))
        main += (0.8 * shared + 0.6 * of_task)[drawn]
        factor = rng.normal(size=known)[drawn]
        if field < 2 * PAIRS:
            pairs += factor * before if field % 2 else 0
            before = factor
    logits = 1.2 * main / FIELDS**0.5 + 0.8 * pairs[:, None] / PAIRS**0.5
    return {"candidate": ids}, logits - np.arange(1, 1 + len(TASKS))


def _history(
    size: int, rows: int, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Items have topics; a user clicks on an item whose topic the history is full of."""
    known = (size - RESERVED) // TOPICS * TOPICS
    favourites = rng.integers(TOPICS, size=(known, FAVOURITES), dtype="int8")
    users = ranks(known, rows, rng)

    def topics(share: float, *shape: int) -> np.ndarray:
        chosen = rng.integers(FAVOURITES, size=(rows, *shape), dtype="int8")
        liked = np.take_along_axis(favourites[users], chosen.reshape(rows, -1), axis=1)
        any_ = rng.integers(TOPICS, size=chosen.shape, dtype="int8")
        keep = rng.random(chosen.shape, "float32") < share
        return np.where(keep, liked.reshape(chosen.shape), any_)

    history, target = topics(0.7, HISTORY), topics(0.4)
    place = rng.permutation(known).astype("int32") + RESERVED

    def items(topic: np.ndarray) -> np.ndarray:
        rank = ranks(known // TOPICS, topic.size, rng).reshape(topic.shape)
        return topic + TOPICS * rank

    item = items(target)
    context = np.concatenate([users[:, None] + RESERVED, place[items(history)]], axis=1)
    interest = np.mean(history == target[:, None], axis=1)
    logits = 6 * interest + 0.7 * rng.normal(size=known)[item] - 2
    arrays = {"context": context.astype("int32"), "candidate": place[item][:, None]}
    return arrays, logits[:, None]
