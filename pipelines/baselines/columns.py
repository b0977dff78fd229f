"""Rows as columns of numbers, ids and bags of ids: what models without embeddings read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.features import FittedFeatures
from recsys_attn.id_transforms import Age, Quantile
from recsys_attn.schema import PADDING_ID, UNKNOWN_ID, Categorical, Feature, Numeric, Schema
from recsys_attn.schema import Sequence as History

Ids = NDArray[np.int32]
Numbers = NDArray[np.float32]


@dataclass(frozen=True)
class Columns:
    """Features of rows, of shape (rows,), and of bags (rows, length).

    Attributes:
        numbers: By name; NaN is missing.
        ids: By name; 0 is missing and 1 unknown.
        bags: Several ids of a row by name, padded with 0.
    """

    numbers: dict[str, Numbers]
    ids: dict[str, Ids]
    bags: dict[str, Ids]

    @classmethod
    def of(cls, table: pa.Table, fitted: FittedFeatures) -> Self:
        """The features of a table, as the model's transforms give them.

        A history is its length, its last event, and how often the row's own value is in it.
        """
        schema, columns = fitted.schema, cls({}, {}, {})
        values = {**fitted.apply(table, "context"), **fitted.apply(table, "candidate")}
        for feature in schema.features:
            columns._add(feature, values[feature.name])
        for name, sequences in schema.histories.items():
            events = np.any([values[s.name] != PADDING_ID for s in sequences], axis=0)
            lengths = events.sum(axis=1)
            columns.numbers[f"{name}/length"] = lengths.astype("float32")
            last = np.maximum(lengths - 1, 0)[:, None]
            for sequence in sequences:
                ids = np.take_along_axis(values[sequence.name], last, axis=1)[:, 0]
                columns._add_single(sequence, f"{sequence.name}/last", ids)
                owner = _owner(schema, sequence)
                if owner is not None:
                    own = np.where(values[owner] == UNKNOWN_ID, -1, values[owner])[:, None]
                    matches = ((values[sequence.name] == own) & events).sum(axis=1)
                    columns.numbers[f"{sequence.name}/matches"] = matches.astype("float32")
        return columns

    def _add(self, feature: Feature, values: NDArray[np.generic]) -> None:
        if isinstance(feature, History):
            return
        if isinstance(feature, Categorical) and feature.multivalued:
            lengths = (values != PADDING_ID).sum(axis=1)
            self.numbers[f"{feature.name}/length"] = lengths.astype("float32")
            self.bags[feature.name] = values.astype("int32")
        else:
            self._add_single(feature, feature.name, values)

    def _add_single(self, feature: Feature, name: str, values: NDArray[np.generic]) -> None:
        if isinstance(feature, Numeric):
            self.numbers[name] = values.astype("float32")
        elif isinstance(feature.transform, Quantile | Age):  # numbers of rising buckets
            numbers = values.astype("float32")
            self.numbers[name] = np.where(values == PADDING_ID, np.float32(np.nan), numbers)
        else:
            self.ids[name] = values.astype("int32")

    def take(self, chosen: NDArray[np.bool_]) -> Columns:
        """Some of the rows."""

        def some(table: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {name: column[chosen] for name, column in table.items()}

        return Columns(some(self.numbers), some(self.ids), some(self.bags))

    @classmethod
    def together(cls, parts: Sequence[Columns]) -> Self:
        """The rows of all parts."""

        def joined(tables: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
            return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}

        return cls(
            joined([part.numbers for part in parts]),
            joined([part.ids for part in parts]),
            joined([part.bags for part in parts]),
        )


def _owner(schema: Schema, sequence: History) -> str | None:
    """The feature with the row's own value among those that a history has."""
    owner = sequence.shares and schema[sequence.shares]
    return owner.name if isinstance(owner, Categorical) and not owner.multivalued else None


@dataclass(frozen=True)
class Codes:
    """The frequent ids of a column: 0 is a missing id, 1 any other, and the frequent ones follow.

    Args:
        ids: The frequent ids, rising.
    """

    ids: Ids

    @classmethod
    def of(cls, ids: Ids, least: int, most: int) -> Self:
        """The most frequent ids, at most `most`, each of at least `least` rows."""
        counts = np.bincount(ids.ravel())
        counts[: UNKNOWN_ID + 1] = 0
        frequent = np.argsort(-counts, kind="stable")[:most]
        return cls(np.sort(frequent[counts[frequent] >= least]).astype("int32"))

    def __len__(self) -> int:
        """The number of codes."""
        return len(self.ids) + 2

    def __call__(self, ids: Ids) -> Ids:
        """The code of each id."""
        if not len(self.ids):
            return (ids != PADDING_ID).astype("int32")
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        codes = np.where(self.ids[place] == ids, place + 2, ids != PADDING_ID)
        return codes.astype("int32")


_SHOWN = 20  # frequent values of a bag, each a column of its own


def flags(train: Columns) -> Callable[[Columns], Iterator[Numbers]]:
    """Returns a function to columns of 0 and 1: whether a bag has each of its frequent values.

    Args:
        train: The rows whose values are counted.
    """
    shown = {name: Codes.of(ids, 1, _SHOWN).ids for name, ids in train.bags.items()}

    def of(columns: Columns) -> Iterator[Numbers]:
        for name, frequent in shown.items():
            for value in frequent:
                yield (columns.bags[name] == value).any(axis=1).astype("float32")

    return of
