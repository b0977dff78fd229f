"""Columns that ingest makes are not asked of a user in vain."""

import pytest

from pipelines.common.errors import PipelineError
from pipelines.ingest.column_checks import check_made
from pipelines.ingest.data_options import DataOptions
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

OPTIONS = DataOptions(
    source="parquet",
    path="log.parquet",
    split={"by": "time", "column": "at"},
    histories=[{"name": "seen", "of": "item", "by": "user", "time": "at", "max_length": 5}],
    aggregates=[
        {"name": "rate", "kind": "rate", "of": "click", "by": "item", "time": "at"},
        {"name": "unused", "kind": "count", "by": "item", "time": "at"},
    ],
)
SCHEMA = Schema(
    (Categorical("item"), Sequence("seen", shares="item"), Numeric("rate")), (Task("click"),)
)


def test_rows_to_score_need_the_made_columns_of_the_features() -> None:
    check_made(OPTIONS, SCHEMA, ["item", "seen", "rate"], "new.parquet")
    check_made(OPTIONS, SCHEMA, ["seen", "rate"], "new.parquet")  # other checks name the item
    message = r"new.parquet: the columns \['seen', 'rate'\] are missing, which `ingest` makes"
    with pytest.raises(PipelineError, match=message):
        check_made(OPTIONS, SCHEMA, ["item"], "new.parquet")
