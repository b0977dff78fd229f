"""Avazu click-through rates: 24 columns per shown mobile ad.

Source: https://www.kaggle.com/c/avazu-ctr-prediction.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets.download import required_path
from pipelines.ingest.delimited import delimited_file, first_existing
from pipelines.ingest.source import ALL, Source
from serving.state.columns.times import hour_and_weekday

_HOW = "get train.csv (or train.gz) from https://www.kaggle.com/c/avazu-ctr-prediction."
_INTEGERS = ("C1", "banner_pos", "device_type", "device_conn_type")
_HASHES = ("site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category")
_DEVICES = ("device_id", "device_ip", "device_model")
# The id is an unsigned number beyond int64.
COLUMNS: dict[str, pa.DataType] = (
    {"id": pa.string(), "click": pa.int8(), "hour": pa.string()}
    | dict.fromkeys((*_INTEGERS, *(f"C{number}" for number in range(14, 22))), pa.int64())
    | dict.fromkeys((*_HASHES, *_DEVICES), pa.string())
)


def read(options: DataOptions) -> Source:
    """Reads the train file; its hour YYMMDDHH becomes `timestamp`, `hour` and `weekday`."""
    names = ("train.csv", "train.csv.gz", "train.gz", "train")
    path = first_existing(required_path(options, _HOW), names)
    return Source({ALL: [delimited_file(path, types=COLUMNS, finish=_finish)]}, time="timestamp")


def _finish(table: pa.Table) -> pa.Table:
    moment = pc.strptime(table["hour"], format="%y%m%d%H", unit="s")
    seconds = moment.cast(pa.int64())
    hour, weekday = hour_and_weekday(seconds)
    table = table.set_column(table.column_names.index("hour"), "hour", hour)
    return table.append_column("weekday", weekday).append_column("timestamp", seconds)
