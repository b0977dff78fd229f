"""Checks of the columns of a source, and of rows to score."""

import pytest

from pipelines.common.errors import PipelineError
from pipelines.ingest.column_checks import check_made
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

MADE = ["seen", "rate", "unused"]
SCHEMA = Schema(
    (Categorical("item"), Sequence("seen", shares="item"), Numeric("rate")), (Task("click"),)
)


def test_rows_to_score_need_the_made_columns_of_the_features() -> None:
    check_made(MADE, SCHEMA, ["item", "seen", "rate"], "new.parquet")
    check_made(MADE, SCHEMA, ["seen", "rate"], "new.parquet")  # other checks name the item
    message = r"new.parquet: the columns \['seen', 'rate'\] are missing, which `ingest` makes"
    with pytest.raises(PipelineError, match=message):
        check_made(MADE, SCHEMA, ["item"], "new.parquet")
