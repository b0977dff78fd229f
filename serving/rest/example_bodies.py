"""Classify and Regress in JSON: objects as Examples, results as lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tensorflow.core.example import example_pb2, feature_pb2
from tensorflow_serving.apis import classification_pb2, input_pb2, regression_pb2

from serving.common.errors import InvalidArgument
from serving.rest.predict_bodies import excerpt, from_base64, kind_of, numbers

_INT64 = np.iinfo(np.int64)
_FLOAT_MAX = float(np.finfo(np.float32).max)


def fill_examples(document: Mapping[str, Any], target: input_pb2.Input) -> None:
    """Fills the input of a request with the `examples` and the `context` of a document.

    Raises:
        InvalidArgument: `examples` is missing or empty, or an Example cannot hold a value.
    """
    examples = document.get("examples")
    if "examples" not in document:
        raise InvalidArgument(
            f"JSON Value: {excerpt(document)} When method is classify, key 'examples' is expected "
            "and was not found"
        )
    if not isinstance(examples, list):
        raise InvalidArgument(
            f"JSON Value: {excerpt(document)} Expecting 'examples' value to be an list/array"
        )
    if not examples:
        raise InvalidArgument(f"JSON Value: {excerpt(document)} 'examples' value is an empty array")
    message = target.example_list
    if "context" in document:
        message = target.example_list_with_context
        message.context.CopyFrom(_example(document["context"]))
    message.examples.extend(_example(example) for example in examples)


def classes(result: classification_pb2.ClassificationResult) -> dict[str, Any]:
    """Returns a list of `[label, score]` for each Example."""
    rows = []
    for row in result.classifications:
        scores = numbers(np.array([one.score for one in row.classes], np.float32))
        rows.append(
            [list(pair) for pair in zip((c.label for c in row.classes), scores, strict=True)]
        )
    return {"results": rows}


def values(result: regression_pb2.RegressionResult) -> dict[str, Any]:
    """Returns a number for each Example."""
    return {"results": numbers(np.array([one.value for one in result.regressions], np.float32))}


def _example(value: Any) -> example_pb2.Example:
    if not isinstance(value, dict):
        raise InvalidArgument(f"Example must be JSON object but got JSON {kind_of(value)}")
    example = example_pb2.Example()
    for name, content in value.items():
        feature = example.features.feature[name]
        for one in content if isinstance(content, list) else [content]:
            _add(feature, name, one)
    return example


def _add(feature: feature_pb2.Feature, name: str, value: Any) -> None:
    kind, converted = _converted(name, value)
    field = feature.WhichOneof("kind")
    if field not in (None, kind):
        raise InvalidArgument(
            f"Unexpected element type in feature: {name} expecting type: "
            f"{str(field).removesuffix('_list')}"
        )
    getattr(feature, kind).value.append(converted)


def _converted(name: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, bool):
        return "int64_list", int(value)
    if isinstance(value, str):
        return "bytes_list", value.encode()
    if isinstance(value, int):
        if not _INT64.min <= value <= _INT64.max:
            raise InvalidArgument(f"Feature: {name} has uint64 element. Only int64 is supported.")
        return "int64_list", value
    if isinstance(value, float):
        if np.isfinite(value) and abs(value) > _FLOAT_MAX:
            raise InvalidArgument(
                f"Cannot convert JSON value: {excerpt(value)} to float without loss of precision. "
                f"Expected a number that float32 holds. Feature: {name}"
            )
        return "float_list", value
    if isinstance(value, dict) and set(value) == {"b64"}:
        try:
            return "bytes_list", from_base64(value)
        except InvalidArgument as error:
            raise InvalidArgument(f"{error}. Feature: {name}") from None
    raise InvalidArgument(
        f"Feature: {name} has element with unexpected JSON type: {kind_of(value)}"
    )
