"""The columns of the evaluated rows besides features and labels."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.common.errors import PipelineError
from pipelines.evaluation.row_cuts import Cut, cut, cut_all
from pipelines.experiment.evaluation_options import EvaluationOptions
from pipelines.storage.dataset import DataSplit
from pipelines.storage.raw_columns import raw_columns
from pipelines.storage.request_rows import request_starts
from recsys_attn.schema import Schema
from serving.state.columns.arrow_kinds import is_number
from serving.state.columns.missing import with_nulls


class EvaluatedRows(NamedTuple):
    """The columns of the evaluated rows besides features and labels, and their segments.

    Attributes:
        extras: Columns by name; of a list column that divides the rows, its lengths.
        requests: The number of each row's request.
        ranked: Whether a request may have several rows.
        group: Column of the groups of GAUC, if there are any.
        groups: The group of each row as a number, NaN for rows without one.
        cuts: The segments.
        searched: The values of the columns that are searched for slices.
    """

    extras: dict[str, pa.Array]
    requests: np.ndarray
    ranked: bool
    group: str | None
    groups: np.ndarray | None
    cuts: list[Cut]
    searched: list[Cut]

    @classmethod
    def read(
        cls, split: DataSplit, options: EvaluationOptions, request: str | None, schema: Schema
    ) -> EvaluatedRows:
        group = options.group or request
        features = [f.name for f in raw_columns(schema).features if f.name in split.columns]
        searched = options.searched(features)
        divided = {*itertools.chain(*options.segmentations), *searched}
        named = {*options.ceiling.values(), *options.baselines.values(), *filter(None, [group])}
        _check_columns(split, named | divided)
        extras, requests = _extra_columns(split, sorted(named | divided), request, divided)
        groups = None if group is None else group_numbers(extras[group])
        cuts = cut_all(options.segmentations, extras)
        slices = [cut(name, extras[name]) for name in searched]
        return cls(extras, requests, request is not None, group, groups, cuts, slices)

    @property
    def clusters(self) -> np.ndarray:
        """The number of the group or the request of each row, whose rows depend on each other."""
        return self.requests if self.groups is None else self.groups

    def numbers(self, name: str) -> np.ndarray:
        """Returns a column as float64 numbers, with NaN for null."""
        column = self.extras[name]
        if not is_number(column.type):
            raise PipelineError(
                f"`evaluation`: column {name!r}: expected numbers, received {column.type}."
            )
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _check_columns(split: DataSplit, names: set[str]) -> None:
    missing = sorted(names - set(split.columns))
    if missing:
        raise PipelineError(
            f"`evaluation` names the columns {missing}, which the data does not have. "
            f"Columns: {', '.join(split.columns)}."
        )


def _extra_columns(
    split: DataSplit, names: list[str], request: str | None, divided: Collection[str]
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Columns by name, and the number of each row's request, in one pass.

    A column of lists in `divided` is read as their lengths.
    """
    read = sorted({*names, *([request] if request else [])})
    if not read:
        return {}, np.arange(split.rows)
    tables, numbers, done = [], [], 0
    for table in split.batches(read):
        lengths = np.diff(request_starts(table, request))
        numbers.append(done + np.repeat(np.arange(len(lengths)), lengths))
        tables.append(_with_lengths(table.select(names), divided))
        done += len(lengths)
    together = pa.concat_tables(tables)
    return {n: together[n].combine_chunks() for n in names}, np.concatenate(numbers)


def _with_lengths(table: pa.Table, names: Collection[str]) -> pa.Table:
    """The table with lengths in the place of lists."""
    for index, (name, kind) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if name in names and pa.types.is_nested(kind):
            table = table.set_column(index, name, pc.list_value_length(table[name]))
    return table


def sampled_requests(
    batches: Iterator[pa.Table],
    requests: np.ndarray,
    count: int,
    seed: int,
    at_least_one: bool = False,
) -> tuple[np.ndarray, pa.Table]:
    """Draws whole requests: which rows `(rows,)`, and their columns.

    Args:
        batches: All rows.
        requests: The number of each row's request `(rows,)`.
        count: About how many rows to draw.
        seed: Seed of the draws.
        at_least_one: Whether one request is drawn in any case.
    """
    rng = np.random.default_rng(seed)
    chosen = rng.random(requests[-1] + 1) < count / len(requests)
    if at_least_one:
        chosen[rng.integers(len(chosen))] = True
    drawn = chosen[requests]
    if not drawn.any():
        return drawn, pa.table({})
    tables, done = [], 0
    for table in batches:
        tables.append(table.filter(pa.array(drawn[done : done + len(table)])))
        done += len(table)
    return drawn, pa.concat_tables(tables)


def group_numbers(column: pa.Array) -> np.ndarray:
    """The number of each row's group; NaN without one."""
    codes = with_nulls(column).dictionary_encode().indices
    return codes.cast(pa.float64()).to_numpy(zero_copy_only=False)
