"""The parity check: the exported model must score like the trained one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.common.errors import PipelineError
from pipelines.export.packed_state import RANK_FROM_STATE, START
from pipelines.export.raw_inputs import RANK_SIGNATURE, ROWS_SIGNATURE, Raw, raw_request, raw_rows
from pipelines.export.signatures import EXAMPLES_SIGNATURE, WITH_CONTEXT, classify_output, ranks
from pipelines.export.tf_examples import example_request, example_rows
from pipelines.features import FittedFeatures
from pipelines.features.fitted import raw_column
from pipelines.scoring.scorer import Scorer, Scores, concatenated
from pipelines.storage.columns import arrow_type
from pipelines.storage.dataset import DataSplit, Reader
from pipelines.storage.request_rows import request_starts
from recsys_attn.models import RankingModel
from recsys_attn.schema import Feature, Schema, is_listed

_UNKNOWN = {"string": "\x01 never seen \u20ac", "int64": np.iinfo("int64").max, "float32": 1e6}
_ROW_GROUPS = 8  # row groups of a sample: enough to spread it, few enough to read fast
_REQUEST = "number of the request"  # no feature can have this name


def sample_requests(
    schema: Schema, split: DataSplit, request: str | None, rows: int
) -> list[pa.Table]:
    """Samples whole requests from a split, and adds edge cases.

    Args:
        schema: Names the columns.
        split: The split; the first requests of a few row groups are taken.
        request: Column of the request id; None: every row is a request.
        rows: Minimum number of rows, if the split has them.
    """
    names = [feature.name for feature in schema.features]
    names += [request] if request and request not in names else []
    groups = len(split.footers)
    count = min(groups, _ROW_GROUPS, rows)
    requests: list[pa.Table] = []
    with Reader(split.footers, names) as reader:
        for done, number in enumerate(np.linspace(0, groups - 1, count).astype(int)):
            missing = rows - sum(table.num_rows for table in requests)
            share = max(1, -(-missing // (count - done)))
            requests += _first_requests(schema, reader.read([number]), request, share)
    return requests + awkward_rows(schema, requests[0].slice(0, 1))


def _first_requests(
    schema: Schema, table: pa.Table, request: str | None, rows: int
) -> list[pa.Table]:
    starts = request_starts(table, request)
    raw = pa.table(
        {f.name: raw_column(table, f.name, f.dtype, is_listed(f)) for f in schema.features}
    )
    pairs = itertools.takewhile(lambda pair: pair[0] < rows, itertools.pairwise(starts))
    return [raw.slice(start, end - start) for start, end in pairs]


def awkward_rows(schema: Schema, row: pa.Table) -> list[pa.Table]:
    """Edge cases: missing values, empty lists, unknown values, over-long lists."""
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
    """More values than the model keeps: known, unknown and missing ones."""
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
    """Compares scores of the training path and of all exported signatures.

    The training path runs twice: with a request's context transformed once, as in training, and
    row by row, as in batch scoring.

    Args:
        model: The trained model.
        fitted: Its transforms.
        folder: The SavedModel.
        requests: Tables of raw rows, one request each.
        tolerance: Largest allowed difference of a probability.

    Returns:
        The number of rows and the largest difference.

    Raises:
        PipelineError: A score differs by more than `tolerance`.
    """
    loaded = tf.saved_model.load(str(folder))
    together = pa.concat_tables(requests)
    rows = fitted.joined(together)
    numbers = np.repeat(np.arange(len(requests)), [table.num_rows for table in requests])
    scorer = Scorer(model)
    expected = scorer.score_table(rows.append_column(_REQUEST, pa.array(numbers)), fitted, _REQUEST)
    results = [
        *_exported(loaded, fitted.raw_schema, requests),
        scorer.score_table(rows, fitted, None),
    ]
    worst = 0.0
    for task, scores in expected.items():
        for result in (result for result in results if task in result):
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


def _exported(loaded: Any, schema: Schema, requests: list[pa.Table]) -> list[Scores]:
    """Scores of all rows from each signature."""
    together = pa.concat_tables(requests)
    results = [
        _call(loaded, ROWS_SIGNATURE, raw_rows(schema, together)),
        *_by_method(schema, _call(loaded, EXAMPLES_SIGNATURE, example_rows(schema, together))),
    ]
    if ranks(schema):
        ranked_inputs = [raw_request(schema, table) for table in requests]
        ranked = [_call(loaded, RANK_SIGNATURE, raw) for raw in ranked_inputs]
        shared = [
            _call(loaded, EXAMPLES_SIGNATURE + WITH_CONTEXT, example_request(schema, table))
            for table in requests
        ]
        results.append(concatenated([{t: p[0] for t, p in part.items()} for part in ranked]))
        results += _by_method(schema, concatenated(shared))
        if RANK_FROM_STATE in loaded.signatures:
            results.append(_from_states(loaded, ranked_inputs))
    return results


def _from_states(loaded: Any, requests: list[Raw]) -> Scores:
    """Scores from the encoded histories of each request."""

    def call(key: str, raw: Raw) -> Scores:
        names = loaded.signatures[key].structured_input_signature[1]
        return _call(loaded, key, {name: raw[name] for name in names})

    ranked = [call(RANK_FROM_STATE, {**raw, **call(START, raw)}) for raw in requests]
    return concatenated([{task: p[0] for task, p in part.items()} for part in ranked])


def _by_method(schema: Schema, outputs: Scores) -> list[Scores]:
    """The probabilities of Regress, and those from each of Classify's two scores."""
    both = {
        task.name: outputs[classify_output(task.name, "scores")]
        for task in schema.tasks
        if task.kind == "binary"
    }
    return [
        outputs,
        {task: 1 - scores[:, 0] for task, scores in both.items()},
        {task: scores[:, 1] for task, scores in both.items()},
    ]


def _call(loaded: Any, signature: str, raw: Raw) -> Scores:
    outputs = loaded.signatures[signature](**{n: tf.constant(a) for n, a in raw.items()})
    return {task: scores.numpy() for task, scores in outputs.items()}
