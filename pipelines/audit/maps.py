"""Mean attention: of fields to fields, and to events by their age and likeness."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.audit.head_statistics import Codes
from pipelines.audit.recorder import AttentionRecord
from pipelines.metrics.intervals import Interval, interval_of, ratio_influence, with_ends

AGES = ((0, 1), (1, 2), (2, 3), (3, 5), (5, 10), (10, 20), (20, 50), (50, 10**9))


class Share(NamedTuple):
    """A part of the events: how many they are, and how much attention they get.

    Attributes:
        name: Of the part.
        events: Their mean share of the events of a history.
        weight: Their mean share of the attention.
        lift: Attention in units of their number: 1 for as much as other events get.
    """

    name: str
    events: float
    weight: Interval
    lift: Interval

    @property
    def entry(self) -> dict[str, Any]:
        """The part as metrics.json has it."""
        ends = {"weight": with_ends(self.weight), "lift": with_ends(self.lift)}
        return {"name": self.name, "events": self.events, **ends}


class FieldMap:
    """Adds the attention of fields to fields up, batch by batch."""

    def __init__(self) -> None:
        self._total: NDArray[Any] = np.zeros(())
        self._counts: NDArray[Any] = np.zeros(())

    def add(self, record: AttentionRecord) -> None:
        """Adds a batch."""
        is_query = record.queries.astype(np.float64)
        self._total = self._total + np.einsum("bnts,bt->nts", record.shares, is_query)
        self._counts = self._counts + is_query.sum(axis=0)

    def mean(self) -> NDArray[Any]:
        """The mean share of each field in the attention of each field, by head: (N, F, F).

        Rows without the attending field do not count; NaN where there are none.
        """
        counts = np.broadcast_to(self._counts[:, None], self._total.shape)
        empty = np.full(self._total.shape, np.nan)
        return np.divide(self._total, counts, out=empty, where=counts > 0)


def of_pairs(shares: NDArray[Any], count: int) -> NDArray[Any] | None:
    """The shares of pairs of fields as a symmetric map (N, F, F), with NaN for a field and itself.

    Args:
        shares: The mean attention by head, (N, T, S).
        count: The number F of fields.

    Returns:
        The map; None where the keys are the fields.
    """
    if shares.shape[1] == count:
        return None
    sums = np.full((len(shares), count, count), np.nan)
    first, second = np.triu_indices(count, k=1)
    sums[:, first, second] = sums[:, second, first] = shares[:, 0]
    return sums


class EventShares:
    """Adds the attention to the events of a history up, by their age and likeness."""

    def __init__(self) -> None:
        self._sums: dict[str, list[tuple[NDArray[Any], NDArray[Any]]]] = defaultdict(list)
        self._counts: list[NDArray[Any]] = []
        self._requests: list[NDArray[Any]] = []

    def add(self, record: AttentionRecord) -> None:
        """Adds a batch of a place whose keys are events."""
        weights = record.shares.mean(axis=1)  # (B, T, S)
        size = record.keys.sum(axis=1)
        valid = record.queries & (size > 1)[:, None] & (weights.sum(axis=2) > 0)
        age = size[:, None] - 1 - np.arange(weights.shape[2])
        groups = {
            _age(low, high): ((age >= low) & (age < high) & record.keys)[:, None]
            for low, high in AGES
        }
        for name, group in {**groups, **record.relations}.items():
            number = group.sum(axis=2) / np.maximum(size, 1)[:, None]
            weight = (weights * group).sum(axis=2)
            sums = (number * valid).sum(axis=1), (weight * valid).sum(axis=1)
            self._sums[name].append(sums)
        self._counts.append(valid.sum(axis=1))
        self._requests.append(record.requests)

    def shares(self, clusters: Codes) -> list[Share]:
        """The attention of the events, the mean over heads.

        Ages count events, and add up to all of them; those of a likeness are some of them.

        Args:
            clusters: The number of the user or request of each request of the sample.
        """
        codes = clusters[np.concatenate(self._requests)]
        counts = np.concatenate(self._counts).astype(float)
        entries = []
        for name, parts in self._sums.items():
            number, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
            if number.sum() > 0:
                events = float(number.sum() / counts.sum())
                influences = (
                    ratio_influence(weight, numbers, codes) for numbers in (counts, number)
                )
                entries.append(
                    Share(name, events, *(interval_of(*numbers) for numbers in influences))
                )
        return entries


def _age(low: int, high: int) -> str:
    if high - low == 1:
        return ("latest event", "2nd latest", "3rd latest")[low]
    return f"{low + 1} to {high} ago" if high < AGES[-1][1] else f"more than {low} ago"
