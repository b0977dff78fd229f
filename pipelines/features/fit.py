"""Fits every transform of a schema in one streaming pass over Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from pipelines.engines.base import Engine, tree
from pipelines.features.continued import earlier_transform, is_counted
from pipelines.features.fitted import FittedFeatures, feature_column, fitter
from pipelines.features.lists import flatten_list
from pipelines.features.numeric import NumericTransform
from pipelines.features.transforms import Growing, Transform
from pipelines.storage.dataset import DataSplit, Reader
from pipelines.storage.footers import Footers
from recsys_attn.schema import Feature, Schema, is_listed

States = dict[str, Any]


def owners(schema: Schema) -> list[Feature]:
    """The features to fit: all but sequences that share a table."""
    return [f for f in schema.features if schema.table_owner(f.name) == f.name]


def fit_batch(features: Sequence[Feature], table: pa.Table) -> States:
    """The fitting states of one batch of rows, by feature name."""
    return {f.name: fitter(f).fit_batch(raw_values(f, table)) for f in features}


def merge(features: Sequence[Feature], first: States, second: States) -> States:
    """Merges the fitting states of two parts of the data."""
    return {f.name: fitter(f).merge(first[f.name], second[f.name]) for f in features}


def finish(schema: Schema, states: States, earlier: FittedFeatures | None = None) -> FittedFeatures:
    """Transforms and table sizes from the states of the whole data, behind an earlier run."""
    transforms = {f.name: _finished(f, states.get(f.name), earlier) for f in owners(schema)}
    sizes = {n: t.size for n, t in transforms.items() if hasattr(t, "size")}
    boundaries = {n: t.boundaries for n, t in transforms.items() if isinstance(t, NumericTransform)}
    return FittedFeatures(schema.with_sizes(sizes).with_boundaries(boundaries), transforms)


def _finished(feature: Feature, state: Any, earlier: FittedFeatures | None) -> Transform:
    """The transform of one feature; the state is None if the rows say nothing of it."""
    of, before = fitter(feature), earlier_transform(feature, earlier)
    if before is None:
        return of.finish(state)
    return of.grow(before, state) if isinstance(of, Growing) else before


def fit(
    schema: Schema, batches: Iterable[pa.Table], earlier: FittedFeatures | None = None
) -> FittedFeatures:
    """Fits all transforms on tables, as `fit_split` does."""
    counted = _counted(schema, earlier)
    if not counted:
        return finish(schema, {}, earlier)
    states = (fit_batch(counted, table) for table in batches)
    return finish(schema, tree(states, partial(merge, counted)), earlier)


def fit_split(
    schema: Schema,
    split: DataSplit,
    engine: Engine,
    progress: Callable[[int], None],
    earlier: FittedFeatures | None = None,
) -> FittedFeatures:
    """Fits all transforms on a split's row groups; every engine gives the same result.

    Args:
        schema: The features.
        split: The split to fit on.
        engine: Fits and merges the row groups.
        progress: Shows the rows done.
        earlier: Those of the run before this one: values keep their ids, and new ones follow them;
            scales, buckets and hashes stay. Features that it does not have are fitted anew.
    """
    counted, footers = _counted(schema, earlier), split.footers
    if not counted:
        return finish(schema, {}, earlier)

    def done(number: int) -> None:
        progress(int(footers.rows[number]))

    work = partial(_fitting, counted, footers)
    states = engine.map_reduce(work, range(len(footers)), partial(merge, counted), done)
    return finish(schema, states, earlier)


def _counted(schema: Schema, earlier: FittedFeatures | None) -> list[Feature]:
    """The features whose transforms the rows decide."""
    return [feature for feature in owners(schema) if is_counted(feature, earlier)]


@contextmanager
def _fitting(features: Sequence[Feature], footers: Footers) -> Iterator[Callable[[int], States]]:
    """Yields a function from the number of a row group to its states."""
    with Reader(footers, columns_of(features)) as reader:
        yield lambda number: fit_batch(features, reader.read([number]))


def columns_of(features: Sequence[Feature]) -> list[str]:
    """The columns that some features read."""
    return list(dict.fromkeys(feature.column_name for feature in features))


def raw_values(feature: Feature, table: pa.Table) -> pa.Array:
    """The raw values of a feature in some rows; those of lists one after another."""
    column = feature_column(table, feature)
    return flatten_list(column)[0] if is_listed(feature) else column
