"""The built-in sources."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.ingest import sequences, tables
from pipelines.ingest.common_schema import with_common_columns
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets import avazu, census_income, criteo, frappe, movielens, trivago
from pipelines.ingest.simulate.source import read as read_simulated
from pipelines.ingest.source import SOURCES, Source, SourceKind, Wanted
from pipelines.storage.filesystem import CSV, PARQUET

Read = Callable[[DataOptions, Wanted], Source]


def _alone(read: Callable[[DataOptions], Source]) -> Read:
    return lambda options, wanted: read(options)


def _csv(options: DataOptions, wanted: Wanted) -> Source:
    source = tables.read_csv(options, wanted.schema)
    return with_common_columns(source, options, wanted.schema, wanted.named)


def _parquet(options: DataOptions, wanted: Wanted) -> Source:
    source = tables.read_parquet(options, wanted.schema)
    return with_common_columns(source, options, wanted.schema, wanted.named)


def _simulated(options: DataOptions, wanted: Wanted) -> Source:
    return read_simulated(options, wanted.seed)


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
