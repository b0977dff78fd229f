"""Decodes logged calls into raw columns, the input of the training path."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.features import FittedFeatures
from pipelines.prediction_log.messages import UnreadableCall, examples, merged, parse
from pipelines.storage.columns import arrow_type
from recsys_attn.schema import Feature, Schema, Sequence, Side, is_listed
from serving.state.columns.missing import MISSING_INT

_EXAMPLES = ({"inputs"}, {"context", "examples"})  # inputs of the signatures that take them
_TEXTS = "OSU"  # kinds of dtypes
_VALUES = {"string": "bytes_list", "int64": "int64_list", "float32": "float_list"}


@dataclass(frozen=True)
class LoggedRequests:
    """Logged requests and their candidates.

    Attributes:
        context: Context features, a row per request.
        candidates: Candidate features, a row per candidate.
        lengths: Candidates of each request: `(requests,)`.
        scores: By task, `(candidates,)`; only tasks in the response.
    """

    context: pa.Table
    candidates: pa.Table
    lengths: np.ndarray
    scores: dict[str, np.ndarray]

    @property
    def rows(self) -> int:
        """Number of candidates."""
        return int(self.lengths.sum())

    @classmethod
    def concat(cls, parts: Ordered[Self]) -> Self:
        """Concatenates the requests of several calls; keeps scores of common tasks."""
        tasks = set.intersection(*(set(part.scores) for part in parts))
        return cls(
            pa.concat_tables([part.context for part in parts]),
            pa.concat_tables([part.candidates for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            {task: np.concatenate([part.scores[task] for part in parts]) for task in tasks},
        )

    def with_items(self, fitted: FittedFeatures) -> Self:
        """The requests with the features of their items, which no call holds."""
        return replace(self, candidates=fitted.joined(self.candidates))

    def context_of_rows(self) -> pa.Table:
        """The context, repeated for every candidate."""
        numbers = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return _taken(self.context, numbers)

    def table(self, request: str) -> pa.Table:
        """All features, a row per candidate, and the number of its request."""
        context, candidates = self.context_of_rows(), self.candidates
        columns = {name: part[name] for part in (context, candidates) for name in part.column_names}
        numbers = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return pa.table({**columns, request: numbers})


def decode(content: bytes, schema: Schema, grouped: bool) -> LoggedRequests:
    """The requests of one logged call.

    Args:
        content: A serialized `PredictionLog`.
        schema: Names the features.
        grouped: Whether consecutive rows with the same context are one request, as in the
            training data.

    Raises:
        UnreadableCall: The call does not fit the schema.
    """
    return decode_parsed(*parse(content), schema, grouped)


def decode_parsed(kind: str, log: Any, schema: Schema, grouped: bool) -> LoggedRequests:
    """`decode` of what `parse` gives."""
    if kind == "predict_log":
        arrays = {name: array_of(name, proto) for name, proto in log.request.inputs.items()}
        read = _from_serialized if _are_examples(arrays, schema) else _from_arrays
        context, candidates, lengths = read(arrays, schema)
        answers = log.response.outputs
    else:
        context, candidates, lengths = _from_examples(examples(log.request), schema)
        answers = {}
    if grouped and (lengths == 1).all() and any(f.side == "candidate" for f in schema.features):
        context, lengths = _gathered(context, len(lengths))
    scores = {}
    for task in schema.tasks:
        if task.name in answers:
            score = array_of(task.name, answers[task.name]).reshape(-1)
            if len(score) != lengths.sum():
                raise UnreadableCall(f"output {task.name!r} does not have one score per candidate")
            scores[task.name] = score.astype("float32")
    return LoggedRequests(context, candidates, lengths, scores)


def array_of(name: str, proto: Any) -> np.ndarray:
    """The array of a logged tensor.

    Raises:
        UnreadableCall: Its bytes are damaged.
    """
    try:
        return tf.make_ndarray(proto)
    except (TypeError, ValueError):
        raise UnreadableCall(f"the tensor {name!r} cannot be read") from None


def _from_arrays(
    arrays: dict[str, np.ndarray], schema: Schema
) -> tuple[pa.Table, pa.Table, np.ndarray]:
    """Decodes rows `(B, ...)`, or lists of candidates `(B, N, ...)`."""
    for feature in schema.features:
        if feature.name not in arrays:
            raise UnreadableCall(f"input {feature.name!r} is missing")
    extra = {
        arrays[f.name].ndim - 1 - is_listed(f) for f in schema.features if f.side == "candidate"
    }
    context_axes = {
        arrays[f.name].ndim - 1 - is_listed(f) for f in schema.features if f.side == "context"
    }
    if not (extra <= {0} or extra == {1}) or not context_axes <= {0}:
        raise UnreadableCall("the inputs' ranks are those of no signature of the model")
    ranked = extra == {1}
    leading = {
        arrays[f.name].shape[: 1 + (ranked and f.side == "candidate")] for f in schema.features
    }
    requests = {shape[0] for shape in leading}
    counts = {shape[1] for shape in leading if len(shape) == 2}
    if len(requests) != 1 or len(counts) > 1:
        raise UnreadableCall("the inputs' sizes differ")
    (batch,), count = requests, next(iter(counts), 1)
    columns = {
        feature.name: _raw_column(feature, arrays[feature.name]) for feature in schema.features
    }
    groups: list[tuple[Feature, ...]] = [*schema.histories.values()]
    groups += [(f,) for f in schema.features if is_listed(f) and not isinstance(f, Sequence)]
    for group in groups:
        widths = [arrays[feature.name].shape[-1] for feature in group]
        padded = [columns[feature.name] for feature in group]
        lists = _without_padding(padded, widths)
        columns |= {feature.name: of for feature, of in zip(group, lists, strict=True)}
    return (*_sides(columns, schema), np.full(batch, count))


def _raw_column(feature: Feature, array: np.ndarray) -> pa.Array:
    flat = _in_dtype(feature, array.reshape(-1))
    if feature.dtype == "string":
        return pa.array(map(_text, flat.tolist()), pa.string())
    if feature.dtype == "int64":
        return pa.array(flat, mask=flat == MISSING_INT)
    return pa.array(flat, from_pandas=True)  # NaN is missing


def _without_padding(columns: Ordered[pa.Array], widths: Ordered[int]) -> list[pa.Array]:
    """Lists of one length in each row: up to the last value of any of them.

    Args:
        columns: The values of the lists of one history, all rows one after another.
        widths: The values of a row.
    """
    lengths = np.max([_known(*pair) for pair in zip(columns, widths, strict=True)], axis=0)
    offsets = np.append(0, lengths.cumsum())
    place = np.arange(offsets[-1]) - offsets[:-1].repeat(lengths)
    lists = []
    for column, width in zip(columns, widths, strict=True):
        taken = np.arange(len(lengths)).repeat(lengths) * width + place
        values = column.take(pa.array(taken, mask=place >= width))
        lists.append(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values))
    return lists


def _known(column: pa.Array, width: int) -> np.ndarray:
    """`(rows,)`, the number of values up to the last one that is not missing."""
    known = column.is_valid().to_numpy(zero_copy_only=False).reshape(-1, width)
    return np.where(known, np.arange(1, width + 1), 0).max(axis=1, initial=0)


def _in_dtype(feature: Feature, values: np.ndarray) -> np.ndarray:
    """The values in the feature's type, as a server converts those of a request."""
    from serving.encoding.array_values import Misfit, fitted

    dtype = np.dtype("O" if feature.dtype == "string" else feature.dtype)
    if values.dtype == dtype or (feature.dtype == "string" and values.dtype.kind in _TEXTS):
        return values  # older logs have bytes that are no text, and infinite numbers
    try:
        return fitted(values, dtype)
    except Misfit:
        raise UnreadableCall(f"input {feature.name!r} is not of the type {feature.dtype}") from None


def _text(value: Any) -> str | None:
    """A string, or None if it is missing; invalid bytes become an unknown string."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text or None


def _are_examples(arrays: dict[str, np.ndarray], schema: Schema) -> bool:
    names = {feature.name for feature in schema.features}
    return arrays.keys() in _EXAMPLES and names.isdisjoint(arrays)


def _from_serialized(
    arrays: dict[str, np.ndarray], schema: Schema
) -> tuple[pa.Table, pa.Table, np.ndarray]:
    """Decodes a Predict call on a signature that takes Examples."""
    columns = {name: _parsed(name, array) for name, array in arrays.items()}
    if "inputs" in columns:
        return _from_examples(columns["inputs"], schema)
    context = columns["context"]
    if len(context) != 1:
        raise UnreadableCall(f"input 'context' is {len(context)} tf.Examples, and not one")
    return _from_examples(merged(context[0], columns["examples"]), schema, context)


def _parsed(name: str, array: np.ndarray) -> list[Any]:
    if array.dtype.kind not in _TEXTS:
        raise UnreadableCall(f"input {name!r} is not of the type string")
    try:
        return [tf.train.Example.FromString(content) for content in array.reshape(-1)]
    except Exception:  # protobuf's own, which has no name in a declared dependency
        raise UnreadableCall(f"input {name!r} has bytes that are no tf.Example") from None


def _from_examples(
    rows: list[Any], schema: Schema, context: list[Any] | None = None
) -> tuple[pa.Table, pa.Table, np.ndarray]:
    """Decodes `tf.Example`s: rows, or the candidates of one `context`."""
    columns = {}
    for feature in schema.features:
        source = rows if context is None or feature.side == "candidate" else context
        lists = [_values(example, feature) for example in source]
        values = lists if is_listed(feature) else [next(iter(value), None) for value in lists]
        columns[feature.name] = pa.array(values, arrow_type(feature.dtype, is_listed(feature)))
    lengths = np.ones(len(rows), np.int64) if context is None else np.array([len(rows)])
    return (*_sides(columns, schema), lengths)


def _values(example: Any, feature: Feature) -> list[Any]:
    if feature.name not in example.features.feature:
        return []
    value = example.features.feature[feature.name]
    kind = value.WhichOneof("kind")
    if kind not in (None, _VALUES[feature.dtype]):
        raise UnreadableCall(f"feature {feature.name!r} is not of the type {feature.dtype}")
    values = list(getattr(value, _VALUES[feature.dtype]).value)
    return [_text(entry) for entry in values] if feature.dtype == "string" else values


def _sides(columns: dict[str, pa.Array], schema: Schema) -> tuple[pa.Table, pa.Table]:
    for sequences in schema.histories.values():
        _align([sequence.name for sequence in sequences], columns)

    def side(name: Side) -> pa.Table:
        return pa.table({f.name: columns[f.name] for f in schema.features if f.side == name})

    return side("context"), side("candidate")


def _align(names: list[str], columns: dict[str, pa.Array]) -> None:
    """Pads aligned sequences, which may be sent with different lengths."""
    sizes = [columns[name].value_lengths() for name in names]
    if all(size.equals(sizes[0]) for size in sizes):
        return
    longest = np.max([size.to_numpy() for size in sizes], axis=0)
    for name in names:
        lists = zip(columns[name].to_pylist(), longest, strict=True)
        padded = [values + [None] * (n - len(values)) for values, n in lists]
        columns[name] = pa.array(padded, columns[name].type)


def _gathered(context: pa.Table, rows: int) -> tuple[pa.Table, np.ndarray]:
    """Merges consecutive equal contexts; returns them and their numbers of rows."""
    values = context.to_pylist() or [{}] * rows
    starts = [i for i in range(rows) if i == 0 or values[i] != values[i - 1]]
    return _taken(context, np.array(starts, np.int64)), np.diff([*starts, rows])


def _taken(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Takes rows; a table without columns stays as it is."""
    return table.take(pa.array(rows)) if table.num_columns else table
