"""The built-in sources, and the reader of a user's: a function from a path to tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest import sequences, table_files
from pipelines.ingest.common_schema import with_common_columns
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets import avazu, census_income, criteo, frappe, movielens, trivago
from pipelines.ingest.simulate.reading import read as read_simulated
from pipelines.ingest.source import SOURCES, Columns, Source, SourceContext, SourceFile, SourceKind
from pipelines.storage.filesystem import CSV, PARQUET, Where, shown

Function = Callable[..., Iterable[pa.Table]]
Read = Callable[[DataOptions, SourceContext], Source]


def read_own(function: Function, options: DataOptions, context: SourceContext) -> Source:
    """The tables of a registered function, for each path."""
    parts = {
        part: [_file(function, options, place) for place in places]
        or [_file(function, options, None)]
        for part, places in options.places_by_part().items()
    }
    source = Source(parts, checks_requests=True)
    return with_common_columns(source, options, context.schema, context.named)


def _file(function: Function, options: DataOptions, place: Where | None) -> SourceFile:
    def read(columns: Columns) -> Iterator[pa.Table]:
        for table in function(place, **options.options):
            if not isinstance(table, pa.Table):
                raise PipelineError(
                    f"The source {options.source!r} must yield tables of pyarrow. "
                    f"Received: {type(table).__name__}"
                )
            yield table

    return SourceFile(options.source if place is None else shown(place), read)


def _alone(read: Callable[[DataOptions], Source]) -> Read:
    return lambda options, context: read(options)


def _csv(options: DataOptions, context: SourceContext) -> Source:
    source = table_files.read_csv(options, context.schema)
    return with_common_columns(source, options, context.schema, context.named)


def _parquet(options: DataOptions, context: SourceContext) -> Source:
    source = table_files.read_parquet(options, context.schema)
    return with_common_columns(source, options, context.schema, context.named)


def _simulated(options: DataOptions, context: SourceContext) -> Source:
    return read_simulated(options, context.seed)


SOURCES.add("simulate", SourceKind(_simulated, has_requests=True))
SOURCES.add("movielens-1m", SourceKind(_alone(movielens.read)))
SOURCES.add("census-income", SourceKind(_alone(census_income.read)))
SOURCES.add("frappe", SourceKind(_alone(frappe.read)))
SOURCES.add("trivago", SourceKind(_alone(trivago.read), has_requests=True))
SOURCES.add("criteo", SourceKind(_alone(criteo.read)))
SOURCES.add("avazu", SourceKind(_alone(avazu.read)))
SOURCES.add("csv", SourceKind(_csv, file_suffixes=CSV))
SOURCES.add("parquet", SourceKind(_parquet, file_suffixes=PARQUET))
SOURCES.add("sequences", SourceKind(_alone(sequences.read), file_suffixes=PARQUET))
