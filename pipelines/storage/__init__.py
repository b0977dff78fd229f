"""Parquet files: filesystems, footers, splits and columns."""
