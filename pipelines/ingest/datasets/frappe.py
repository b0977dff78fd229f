"""Frappe: which app was used in which context; rows of ids with sampled negatives.

Source: https://huggingface.co/datasets/reczoo/Frappe_x1 (Baltrunas et al., 2015).
"""

from __future__ import annotations

import pyarrow as pa

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets.download import required_path
from pipelines.ingest.delimited import delimited_file, first_existing
from pipelines.ingest.source import Source

_HOW = (
    "get Frappe_x1 (train.csv, valid.csv, test.csv) from huggingface.co/datasets/reczoo/Frappe_x1."
)
COLUMNS = {
    name: pa.int64()
    for name in (
        "label",
        "user",
        "item",
        "daytime",
        "weekday",
        "isweekend",
        "homework",
        "cost",
        "weather",
        "country",
        "city",
    )
}


def read(options: DataOptions) -> Source:
    """Reads the provider's train, valid and test files."""
    folder = required_path(options, _HOW)
    if not folder.is_dir():
        raise PipelineError(f"data.path: expected the folder of Frappe_x1, received {folder}.")
    return Source(
        {
            part: [
                delimited_file(
                    first_existing(folder, (f"{part}.csv", f"{part}.csv.gz")), types=COLUMNS
                )
            ]
            for part in ("train", "valid", "test")
        },
        user="user",
    )
