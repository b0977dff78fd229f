"""Criteo Display Advertising: 13 counts and 26 hashed categories per shown ad.

Source: https://www.kaggle.com/c/criteo-display-ad-challenge.
"""

from __future__ import annotations

import pyarrow as pa

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets.download import required_path
from pipelines.ingest.delimited import delimited_file, first_existing
from pipelines.ingest.source import ALL, Source

_HOW = "get train.txt from https://www.kaggle.com/c/criteo-display-ad-challenge."
COLUMNS: dict[str, pa.DataType] = (
    {"label": pa.int8()}
    | {f"I{number}": pa.int64() for number in range(1, 14)}
    | {f"C{number}": pa.string() for number in range(1, 27)}
)


def read(options: DataOptions) -> Source:
    """Reads `train.txt`: tab-separated, without a header, sorted by time."""
    path = first_existing(required_path(options, _HOW), ("train.txt", "train.txt.gz"))
    return Source({ALL: [delimited_file(path, "\t", list(COLUMNS), COLUMNS)]})
