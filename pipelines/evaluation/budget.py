"""The rows of each audit of an evaluation, by their work and that of the training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

PASSES_OF_TRAINING = 3  # of a row through the model, in the time of a training step for it
LEAST = 100_000  # passes of an evaluation: seconds


class Audit(NamedTuple):
    """An audit that takes further passes of rows through the model.

    Attributes:
        name: Its name in a sentence.
        rows: The rows that it takes, if it may.
        passes: Of each row.
        fewest: Rows below which it says too little; it is then left out.
    """

    name: str
    rows: int
    passes: int
    fewest: int

    @property
    def work(self) -> int:
        """The passes of all its rows."""
        return self.rows * self.passes


class Budget(NamedTuple):
    """The passes that the audits of an evaluation may take together.

    They follow from numbers of rows, and not from a clock: the same run has the same results on
    any machine.

    Attributes:
        share: Of the time of the training.
        trained: Rows of the training, of all epochs.
    """

    share: float
    trained: int

    @property
    def passes(self) -> int:
        """The passes of all audits."""
        return max(LEAST, int(self.share * PASSES_OF_TRAINING * self.trained))

    def rows(self, audits: Sequence[Audit]) -> list[int]:
        """The rows of each audit: equal parts of the work, of which a small audit leaves some.

        Args:
            audits: With the rows that they would take.
        """
        rows, left = [0] * len(audits), self.passes
        by_work = sorted(range(len(audits)), key=lambda number: audits[number].work)
        for place, number in enumerate(by_work):
            audit = audits[number]
            most = left // (len(audits) - place) // max(audit.passes, 1)
            if most >= min(audit.fewest, audit.rows):
                rows[number] = min(audit.rows, most)
            left -= rows[number] * audit.passes
        return rows

    def words(self, audits: Sequence[Audit], rows: Sequence[int]) -> str:
        """A sentence that names the audits left out and the option for all rows; else empty.

        Args:
            audits: With the rows that they would take.
            rows: The result of `rows`.
        """
        cut = [
            f"{audit.name} {few:,} of {audit.rows:,} rows" if few else f"{audit.name} no rows"
            for audit, few in zip(audits, rows, strict=True)
            if few < audit.rows
        ]
        if not cut:
            return ""
        whole = sum(audit.work for audit in audits) / (PASSES_OF_TRAINING * max(self.trained, 1))
        share = math.ceil(whole * 10) / 10
        return (
            f"`evaluation.budget` = {self.share:g} leaves {', '.join(cut)}; "
            f"all rows: --set evaluation.budget={share:g}"
        )
