"""From the provider's own files to the data folder: train, valid and test as Parquet."""

from pipelines.ingest.run import ingest as ingest

__all__ = ["ingest"]
