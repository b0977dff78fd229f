"""Ingest: reads source files and writes the data folder, train, valid and test as Parquet."""

from pipelines.ingest.ingest import ingest as ingest

__all__ = ["ingest"]
