"""trivago RecSys Challenge 2019: lists with a click, and the user's earlier actions.

One row per item of a list. Source: https://recsys.trivago.cloud/challenge/dataset/ (train.csv).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from pipelines.ingest.common_schema import common_files
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets.download import required_path
from pipelines.ingest.datasets.trivago_lists import lists_of_sessions
from pipelines.ingest.delimited import delimited_file
from pipelines.ingest.source import ALL, Columns, Source, SourceFile
from pipelines.ingest.table_files import parquet_files
from pipelines.storage.filesystem import Storage
from pipelines.storage.request_rows import whole_requests

_HOW = "get train.csv of the RecSys Challenge 2019 from https://recsys.trivago.cloud/challenge/."
_TEXT, _INT = pa.string(), pa.int64()
COLUMNS: dict[str, pa.DataType] = {
    "user_id": _TEXT,
    "session_id": _TEXT,
    "timestamp": _INT,
    "step": _INT,
    "action_type": _TEXT,
    "reference": _TEXT,
    "platform": _TEXT,
    "city": _TEXT,
    "device": _TEXT,
    "current_filters": _TEXT,
    "impressions": _TEXT,
    "prices": _TEXT,
}


def read(options: DataOptions) -> Source:
    """Reads lists in the order of the actions file, which holds sessions one after the other."""
    path = required_path(options, _HOW)
    names = ("train.csv", "train.csv.gz", "actions.parquet")
    named = [path / name for name in names if (path / name).is_file()] if path.is_dir() else []
    place = Storage.of(path)
    files = named[:1] or [
        Path(place.file_name(name)) for name in place.files((".parquet", ".csv", ".csv.gz"))
    ]
    return Source(
        {ALL: [_lists_of(_actions(file)) for file in files]},
        request="request_id",
        user="user_id",
        time="timestamp",
    )


def _actions(path: Path) -> SourceFile:
    if path.suffix == ".parquet":
        return common_files(parquet_files(Storage.of(path)), {}, COLUMNS)[0]
    return delimited_file(path, types=COLUMNS)


def _lists_of(actions: SourceFile) -> SourceFile:
    read_actions: Callable[[Columns], Iterator[pa.Table]] = actions.read

    def read(columns: Columns) -> Iterator[pa.Table]:
        for table in whole_requests(read_actions(None), "session_id", actions.where):
            yield lists_of_sessions(table, actions.where)

    return SourceFile(actions.where, read)
