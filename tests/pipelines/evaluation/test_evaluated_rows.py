"""Columns that `evaluation` names, as numbers."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.evaluation.evaluated_rows import EvaluatedRows


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, None, False], [1, np.nan, 0]),
        ([Decimal("0.25"), None, Decimal(3)], [0.25, np.nan, 3]),
        ([1, None, 2], [1, np.nan, 2]),
    ],
)
def test_what_ingest_takes_as_a_number_is_one(values, expected) -> None:
    rows = EvaluatedRows({"x": pa.array(values)}, np.arange(3), False, None, None, [], [])
    np.testing.assert_array_equal(rows.numbers("x"), expected)
    with pytest.raises(PipelineError, match="column 'y': expected numbers, received string"):
        rows._replace(extras={"y": pa.array(["a"])}).numbers("y")
