"""Values that earlier rows lack: those of the last train rows, and of the validation rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILE = "unseen.parquet"
_SHARES = ("of_last", "of_train", "of_valid")
_NOTICEABLE = 0.01
_LATE = 0.5  # share of the steps in which a late id is hidden; the others teach its own row
_MOST = 0.2


@dataclass(frozen=True)
class UnseenValues:
    """How much of a feature is new to a model that was trained on the rows before.

    Attributes:
        size: Rows of the table.
        late: Ids of the values that are new in the last train rows, in ascending order.
        of_last: Share of the values of the last train rows that the rows before them lack.
        of_train: Share of the values of all train rows that are late.
        of_valid: Share of the values of the validation rows that have no row in the table.
    """

    size: int
    late: np.ndarray
    of_last: float
    of_train: float
    of_valid: float

    @property
    def shares(self) -> dict[str, float]:
        """The shares, for a manifest."""
        return {key: getattr(self, key) for key in _SHARES}

    @property
    def hidden(self) -> np.ndarray:
        """Share of the steps in which training hides each id of a table, `(size,)`, float32.

        Late ids are what new ones are, with the counts and the neighbours of new ones. To hide
        others too would teach the row of unknown values the mean of all, which new ones are not.
        """
        shares = np.zeros(self.size, np.float32)
        shares[self.late] = _LATE
        return shares

    @property
    def is_noticeable(self) -> bool:
        """Whether validation or the last train rows have many new values."""
        return max(self.of_last, self.of_valid) > _NOTICEABLE


def last_share(rows: Mapping[str, int]) -> float:
    """The share of the train rows that are the last ones: as many rows as validation has."""
    return min(rows["valid"] / (rows["train"] + rows["valid"]), _MOST)


def fit_lines(unseen: Mapping[str, UnseenValues], share: float) -> Iterator[str]:
    """Sentences on the features with many new values.

    Args:
        unseen: New values by feature.
        share: Share of the train rows that are the last ones.
    """
    for name, of in unseen.items():
        if of.is_noticeable:
            yield (
                f"{name}: {of.of_valid:.0%} of the validation rows' values are new, and "
                f"{of.of_last:.0%} of those of the last {share:.0%} of the train rows"
            )


def train_lines(unseen: Mapping[str, UnseenValues]) -> Iterator[str]:
    """Sentences on the values that training hides, and on rows that it cannot teach."""
    for name, of in unseen.items():
        if of.is_noticeable and len(of.late):
            yield (
                f"{name}: so that the row of unknown values learns, the {len(of.late):,} values "
                f"that are new in the last train rows ({of.of_train:.1%} of all) are unknown in "
                "half of the steps"
            )
        elif of.of_valid > _NOTICEABLE:
            yield (
                f"{name}: {of.of_valid:.0%} of the validation rows' values are new, and no train "
                "row teaches the row of unknown values. Set `training.id_dropout = 0.1`"
            )


def save_unseen(unseen: Mapping[str, UnseenValues], folder: Path) -> None:
    """Writes `unseen.parquet`, a row for each feature."""
    rows: list[dict[str, Any]] = [{"feature": n, **asdict(of)} for n, of in unseen.items()]
    late = pa.field("late", pa.list_(pa.int32()))
    keys = [pa.field("feature", pa.string()), pa.field("size", pa.int64())]
    schema = pa.schema([*keys, late, *(pa.field(key, pa.float64()) for key in _SHARES)])
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / FILE, compression="zstd")


def load_unseen(folder: Path) -> dict[str, UnseenValues]:
    """Reads what `save_unseen` wrote; empty if there is none."""
    if not (folder / FILE).exists():
        return {}
    table = pq.read_table(folder / FILE)
    ids = [values.values.to_numpy() for values in table["late"]]
    rows = table.drop_columns("late").to_pylist()
    return {
        row.pop("feature"): UnseenValues(late=late, **row)
        for row, late in zip(rows, ids, strict=True)
    }
