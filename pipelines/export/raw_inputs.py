"""Raw input arrays, as a client sends them, from the rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.features.fitted import raw_column
from pipelines.features.lists import flatten_list
from recsys_attn.schema import Feature, Schema, is_listed
from serving.state.columns.missing import MISSING

ROWS_SIGNATURE = "serving_default"
RANK_SIGNATURE = "rank"
EXPLAINED_SIGNATURE = "rank_explained"
OF_CANDIDATES = (RANK_SIGNATURE, EXPLAINED_SIGNATURE)
Raw = dict[str, np.ndarray]
_NUMPY: dict[str, Any] = {"string": object, "int64": "int64", "float32": "float32"}


def raw_rows(schema: Schema, table: pa.Table) -> Raw:
    """One array per feature: `(rows,)`, or `(rows, longest list)` padded on the right."""
    return {feature.name: _raw_feature(feature, table) for feature in schema.features}


def raw_request(schema: Schema, table: pa.Table) -> Raw:
    """The rows of one request as one context and its candidates, `(1, ...)` and `(1, N, ...)`."""
    rows = raw_rows(schema, table)
    return {
        feature.name: rows[feature.name][None]
        if feature.side == "candidate"
        else rows[feature.name][:1]
        for feature in schema.features
    }


def _raw_feature(feature: Feature, table: pa.Table) -> np.ndarray:
    if not is_listed(feature):
        return _values(raw_column(table, feature.name, feature.dtype), feature.dtype)
    values, offsets = flatten_list(raw_column(table, feature.name, feature.dtype, True))
    lengths = np.diff(offsets)
    # At least one column: a SavedModel cannot infer types from an empty axis.
    shape = (len(lengths), max(int(lengths.max(initial=0)), 1))
    padded = np.full(shape, MISSING[feature.dtype], _NUMPY[feature.dtype])
    padded[np.arange(shape[1]) < lengths[:, None]] = _values(values, feature.dtype)
    return padded


def _values(column: pa.Array, dtype: str) -> np.ndarray:
    filled = column.fill_null(pa.scalar(MISSING[dtype], column.type))
    return filled.to_numpy(zero_copy_only=False).astype(_NUMPY[dtype])
