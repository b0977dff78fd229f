"""Parquet files: where they lie, their footers, splits and columns."""
