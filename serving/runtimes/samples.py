"""Requests to try a version with: those of its warm-up file, or made up from its signatures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import prediction_log_pb2

from serving.encoding.codec import decode, numpy_dtype, parse

WARMUP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
_DEFAULT_SIGNATURE = "serving_default"
Inputs = dict[str, np.ndarray]


def recorded(path: Path) -> Iterator[tuple[str, Inputs]]:
    """Signature and inputs of each Predict request of a version's warm-up file."""
    file = path / WARMUP_FILE
    if not file.is_file():
        return
    for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
        log = parse(prediction_log_pb2.PredictionLog, record, "The record")
        if log.WhichOneof("log_type") == "predict_log":
            request = log.predict_log.request
            yield (
                request.model_spec.signature_name or _DEFAULT_SIGNATURE,
                {name: decode(name, proto) for name, proto in request.inputs.items()},
            )


def made_up(definition: meta_graph_pb2.SignatureDef, rows: int, size: int) -> Inputs:
    """Inputs of a signature: `rows` along open first axes, `size` along the other open ones."""
    rng = np.random.default_rng(0)
    inputs = {}
    for name, info in sorted(definition.inputs.items()):
        shape = tuple(
            dim.size if dim.size >= 0 else (size if axis else rows)
            for axis, dim in enumerate(info.tensor_shape.dim)
        )
        if info.dtype == types_pb2.DT_STRING:
            inputs[name] = np.full(shape, b"", object)
        else:
            inputs[name] = rng.integers(0, 2, shape).astype(numpy_dtype(info.dtype))
    return inputs


def with_gaps(inputs: Inputs) -> Inputs:
    """The same with every other float missing."""
    found = {name: array.copy() for name, array in inputs.items()}
    for array in found.values():
        if array.dtype.kind == "f":
            array.reshape(-1)[::2] = np.nan
    return found
