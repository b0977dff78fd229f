"""Raw values as serialized `tf.Example`s: parsing in the graph, writing from a table."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.export.raw_inputs import Raw
from pipelines.features.fitted import raw_column
from pipelines.features.graph import raw_dtype
from recsys_attn.schema import Feature, Schema, Side, is_listed
from serving.state.columns.missing import MISSING


def parse_examples(features: Iterable[Feature], serialized: tf.Tensor) -> dict[str, tf.Tensor]:
    """Serialized Examples `(B,)` as the raw tensors of features: `(B,)`, or `(B, longest list)`.

    A feature missing in an Example has the missing value of its type, or an empty list; other
    features are ignored.
    """
    features = tuple(features)
    spec = {
        feature.name: tf.io.RaggedFeature(raw_dtype(feature))
        if is_listed(feature)
        else tf.io.FixedLenFeature([], raw_dtype(feature), MISSING[feature.dtype])
        for feature in features
    }
    parsed = tf.io.parse_example(serialized, spec) if spec else {}
    return {
        feature.name: parsed[feature.name].to_tensor(MISSING[feature.dtype])
        if is_listed(feature)
        else parsed[feature.name]
        for feature in features
    }


def write_examples(features: Iterable[Feature], table: pa.Table) -> list[tf.train.Example]:
    """One Example per row; nulls are left out, and in lists become the missing value."""
    examples = [tf.train.Example() for _ in range(table.num_rows)]
    for feature in features:
        listed = is_listed(feature)
        column = raw_column(table, feature.name, feature.dtype, listed).to_pylist()
        for example, value in zip(examples, column, strict=True):
            if value is not None:
                values = value if listed else [value]
                example.features.feature[feature.name].CopyFrom(_encoded(feature, values))
    return examples


def example_rows(schema: Schema, table: pa.Table) -> Raw:
    """The rows of a table as the input `inputs` of a signature."""
    return {"inputs": _serialized(write_examples(schema.features, table))}


def example_request(schema: Schema, table: pa.Table) -> Raw:
    """The rows of one request as the inputs `context` and `examples` of a signature."""
    context, candidates = of_side(schema, "context"), of_side(schema, "candidate")
    return {
        "context": _serialized(write_examples(context, table.slice(0, 1))),
        "examples": _serialized(write_examples(candidates, table)),
    }


def _serialized(examples: list[tf.train.Example]) -> np.ndarray:
    return np.array([example.SerializeToString() for example in examples], object)


def _encoded(feature: Feature, values: list[str | int | float | None]) -> tf.train.Feature:
    filled = [MISSING[feature.dtype] if value is None else value for value in values]
    if feature.dtype == "string":
        texts = [str(value).encode() for value in filled]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
    if feature.dtype == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=filled))
    return tf.train.Feature(float_list=tf.train.FloatList(value=filled))


def of_side(schema: Schema, side: Side) -> list[Feature]:
    """The features of a request's context, or of its candidates."""
    return [feature for feature in schema.features if feature.side == side]
