"""Training path and exported model must give the same scores, on awkward rows above all."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.data import request_starts
from pipelines.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.features.fitted import arrow_type, raw_column
from pipelines.raw import RANK_SIGNATURE, ROWS_SIGNATURE, Raw, raw_request, raw_rows
from pipelines.scoring import Scorer
from recsys_attn.models import RankingModel
from recsys_attn.schema import Feature, Schema, is_listed

_UNKNOWN = {"string": "\x01 never seen \u20ac", "int64": np.iinfo("int64").max, "float32": 1e6}


def sample_requests(
    schema: Schema, table: pa.Table, request: str | None, rows: int
) -> list[pa.Table]:
    """Whole requests from a table, up to `rows` rows, then one row of every awkward kind."""
    table = table.slice(0, rows)
    columns = {f.name: raw_column(table, f.name, f.dtype, is_listed(f)) for f in schema.features}
    starts = request_starts(table, request)
    raw = pa.table(columns)
    requests = [raw.slice(start, end - start) for start, end in itertools.pairwise(starts)]
    return requests + awkward_rows(schema, raw.slice(0, 1))


def awkward_rows(schema: Schema, row: pa.Table) -> list[pa.Table]:
    """One row with everything missing, one with everything unknown, one with over-long lists."""
    return [
        pa.table(
            {
                f.name: pa.array(
                    [make(f, row[f.name][0].as_py())], arrow_type(f.dtype, is_listed(f))
                )
                for f in schema.features
            }
        )
        for make in (_missing, _empty, _unknown, _overlong)
    ]


def _missing(feature: Feature, value: Any) -> Any:
    return None


def _empty(feature: Feature, value: Any) -> Any:
    return [] if is_listed(feature) else value


def _unknown(feature: Feature, value: Any) -> Any:
    unknown = _UNKNOWN[feature.dtype]
    return [unknown, unknown] if is_listed(feature) else unknown


def _overlong(feature: Feature, value: Any) -> Any:
    """More values than are kept, of every kind: known, unknown and missing ones in the middle."""
    if not is_listed(feature):
        return value
    known = value or []
    length = 2 * getattr(feature, "max_length", 1) + 3
    values = [_UNKNOWN[feature.dtype], None, *known]
    return (values * length)[:length]


def check_parity(
    model: RankingModel,
    fitted: FittedFeatures,
    folder: Path,
    requests: list[pa.Table],
    tolerance: float,
) -> dict[str, Any]:
    """Scores the same requests by the training path and by the exported folder's signatures.

    Args:
        model: The trained model.
        fitted: Its transforms.
        folder: The SavedModel.
        requests: Tables of raw rows, one request each.
        tolerance: Largest allowed difference of a probability.

    Returns:
        How many rows were compared, and the largest difference.

    Raises:
        PipelineError: Some score differs by more than `tolerance`.
    """
    loaded = tf.saved_model.load(str(folder))
    together = pa.concat_tables(requests)
    expected = Scorer(model).score_table(together, fitted, None)
    found = [_call(loaded, ROWS_SIGNATURE, raw_rows(fitted.schema, together))]
    if RANK_SIGNATURE in loaded.signatures:
        parts = [
            _call(loaded, RANK_SIGNATURE, raw_request(fitted.schema, table)) for table in requests
        ]
        found.append({task: np.concatenate([p[task][0] for p in parts]) for task in expected})
    worst = 0.0
    for task, scores in expected.items():
        for result in found:
            difference = np.abs(result[task] - scores)
            if not np.all(difference <= tolerance):
                row = int(np.argmax(np.where(np.isnan(difference), np.inf, difference)))
                raise PipelineError(
                    f"The exported model does not score like the trained one, so nothing was "
                    f"exported: task {task!r}, row {together.slice(row, 1).to_pylist()[0]}: "
                    f"{result[task][row]:.7f} exported, {scores[row]:.7f} trained "
                    f"(`export.tolerance` = {tolerance})."
                )
            worst = max(worst, float(difference.max(initial=0)))
    return {"rows": together.num_rows, "max_abs_difference": worst}


def _call(loaded: Any, signature: str, raw: Raw) -> dict[str, np.ndarray]:
    outputs = loaded.signatures[signature](**{n: tf.constant(a) for n, a in raw.items()})
    return {task: scores.numpy() for task, scores in outputs.items()}
