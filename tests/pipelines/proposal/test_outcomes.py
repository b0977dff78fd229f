"""Columns that are known only afterwards are warned of, and features are not."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.proposal.outcomes import outcome_features, outcome_reason
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import Categorical, Numeric, Schema, Task

ROWS = 2003
_RNG = np.random.default_rng(0)
LABEL = (_RNG.random(ROWS) < 0.2).astype(float)
_NOISE = _RNG.random(ROWS)
_RARE = _NOISE < 0.01


def _array(values: Any) -> pa.Array:
    return pa.array(values, from_pandas=True)


OUTCOMES = {
    "seconds": (LABEL * (1 + _NOISE), "is 1 in 100 % of its"),
    "null without it": (np.where(LABEL == 1, _NOISE, np.nan), "rows with a value"),
    "sometimes": (LABEL * (_NOISE < 0.3), "value other than 0"),
    "opposite": (-LABEL + 0.3 * _NOISE - 2, "alone it has an AUC of 1.000"),
    "text": (np.where(LABEL == 1, "bought", "left"), "alone it has an AUC of 1.000"),
    "middle": (np.where(LABEL == 1, 2, 1 + 2 * (_NOISE < 0.5)), "alone it has an AUC"),
}
FEATURES = {
    "strong": LABEL + 3 * _NOISE,
    "noise": _NOISE,
    "rare flag": _RARE,
    "ids": _RNG.integers(5000, size=ROWS),
    "words": _RNG.integers(300, size=ROWS).astype(str),
    "mostly null": np.where(_RARE, _NOISE, np.nan),
    "constant": np.ones(ROWS),
    "hashes": (_RNG.integers(999, size=ROWS).astype(np.uint64) + np.uint64(2**63 + 1)),
    "nulls": [None] * ROWS,
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes_are_told_with_the_sign(name: str) -> None:
    values, sign = OUTCOMES[name]
    assert sign in outcome_reason(_array(values), pa.chunked_array([LABEL]), "click")


@pytest.mark.parametrize("name", FEATURES)
def test_features_are_no_outcomes(name: str) -> None:
    assert outcome_reason(_array(FEATURES[name]), pa.chunked_array([LABEL]), "click") == ""


def test_few_labels_say_nothing() -> None:
    few = pa.chunked_array([pa.array([*LABEL[:90], *[None] * (ROWS - 90)])])
    assert outcome_reason(_array(LABEL), few, "click") == ""


def test_declared_outcomes_are_warned_of_and_made_columns_are_not(tmp_path: Path) -> None:
    rows = {
        "click": LABEL,
        "dwell": LABEL * _NOISE,
        "rate": LABEL,
        "item": (_NOISE * 50).astype(int),
    }
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet", row_group_size=500)
    features = (Numeric("dwell"), Numeric("rate"), Categorical("item", dtype="int64"))
    schema = Schema(features, (Task("click"),))
    warnings = outcome_features(schema, DataSplit(tmp_path), ["rate"])
    assert len(warnings) == 1
    assert "Feature 'dwell' is probably known only after" in warnings[0]
    assert "`model.exclude`" in warnings[0]
