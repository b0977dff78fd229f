"""From the provider's own files to the data folder: train, valid and test as Parquet."""

from pipelines.ingest.ingest import ingest as ingest

__all__ = ["ingest"]
