"""How well an order is shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np


@dataclass(frozen=True)
class ShuffleQuality:
    """An order beside a perfect shuffle, for which both numbers are 1.

    Attributes:
        displacement: Mean distance between a request's old and new place.
        deviation: If the data were sorted by a label that half of it has: mean squared deviation
            of the label's share in a batch. Up to the size of a batch where batches are all of
            one kind.
    """

    displacement: float
    deviation: float

    @classmethod
    def of(cls, order: np.ndarray, batch_size: int) -> Self:
        """The quality of an order of the numbers 0 to n - 1, cut into batches."""
        count = len(order)
        distance = float(np.abs(order - np.arange(count)).mean())
        label = (order >= count // 2).astype(float)
        whole = label[: count // batch_size * batch_size].reshape(-1, batch_size)
        share = label.mean()
        expected = share * (1 - share) / batch_size * (count - batch_size) / (count - 1)
        found = np.square(whole.mean(axis=1) - share).mean()
        return cls(distance / ((count**2 - 1) / (3 * count)), float(found / expected))

    def __str__(self) -> str:
        return (
            f"requests move {self.displacement:.2f} times as far as in a perfect shuffle, labels "
            f"of sorted data vary {self.deviation:,.1f} times as much between batches"
        )
