"""Small files in the providers' layouts, and helpers to read the result of ingest."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.ingest import ingest
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.split_options import SplitOptions

THIRDS = SplitOptions(by="hash", valid=0.3, test=0.3)


def write_text(path: Path, text: str) -> Path:
    """The text at the path, gzipped where its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_parquet(path: Path, **columns) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def read_split(out: Path, split: str) -> pa.Table:
    return pq.ParquetFile(out / split / "part-00000.parquet").read()


def read_all(out: Path) -> pa.Table:
    return pa.concat_tables(read_split(out, split) for split in ("train", "valid", "test"))


def run(out: Path, schema=None, seed=7, **options):
    """Ingests and returns its summary."""
    return ingest(DataOptions(**options), schema, seed, out)
