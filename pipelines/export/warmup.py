"""TensorFlow Serving's warm-up file: requests that a server replays before it takes traffic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
    predict_pb2,
    prediction_log_pb2,
    regression_pb2,
)

from pipelines.export.packed_state import RANK_FROM_STATE, START, STATE, STEP
from pipelines.export.raw_inputs import OF_CANDIDATES, ROWS_SIGNATURE, Raw, raw_request, raw_rows
from pipelines.export.signatures import CLASSIFY_METHOD, EXAMPLES_SIGNATURE, FIRST, ranks, views
from pipelines.export.tf_examples import of_side, write_examples
from recsys_attn.schema import Schema

WARMUP_FILE = Path("assets.extra") / "tf_serving_warmup_requests"


def write_warmup(folder: Path, logs: Iterable[prediction_log_pb2.PredictionLog]) -> None:
    """Writes a TFRecord of `PredictionLog` into a SavedModel."""
    path = folder / WARMUP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for log in logs:
            writer.write(log.SerializeToString())


def warmup_logs(
    schema: Schema, name: str, requests: list[pa.Table], signatures: Mapping[str, Any]
) -> list[prediction_log_pb2.PredictionLog]:
    """All requests for Predict, and the first request for the other methods.

    One request of Examples is enough, as they share two functions.

    Args:
        schema: Names the features and the tasks.
        name: Model name.
        requests: Tables of raw rows, one request each.
        signatures: Functions of raw tensors by signature name.
    """
    logs = [predict_log(name, ROWS_SIGNATURE, raw_rows(schema, table)) for table in requests]
    inputs = [_example_list(schema, table) for table in requests[:1]]
    if ranks(schema):
        for key in OF_CANDIDATES:
            if key in signatures:
                logs += [predict_log(name, key, raw_request(schema, table)) for table in requests]
        for key in (START, STEP, RANK_FROM_STATE):
            if key in signatures:
                logs.append(_of_states(name, key, raw_request(schema, requests[0]), signatures))
        inputs += [_with_context(schema, table) for table in requests[:1]]
    methods = {
        key: view.method for key, view in views(schema).items() if view.of == EXAMPLES_SIGNATURE
    }
    for examples in inputs:
        logs += [
            _examples_log(name, key, methods[key], examples) for key in FIRST if key in methods
        ]
        logs.append(_multi_inference_log(name, methods, examples))
    return logs


def _of_states(
    name: str, key: str, raw: Raw, signatures: Mapping[str, Any]
) -> prediction_log_pb2.PredictionLog:
    """A request with a state of zeros, where the signature takes a state."""
    _, specs = signatures[key].structured_input_signature
    inputs = {one: raw[one] for one in specs if one != STATE}
    if STATE in specs:
        inputs[STATE] = np.zeros((1, specs[STATE].shape[1]), np.float32)
    return predict_log(name, key, inputs)


def predict_log(name: str, signature: str, inputs: Raw) -> prediction_log_pb2.PredictionLog:
    """A Predict request as a record."""
    request = predict_pb2.PredictRequest(model_spec=_spec(name, signature))
    for key, array in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(array))
    log = prediction_log_pb2.PredictLog(request=request)
    return prediction_log_pb2.PredictionLog(predict_log=log)


def _examples_log(
    name: str, signature: str, method: str, examples: input_pb2.Input
) -> prediction_log_pb2.PredictionLog:
    spec = _spec(name, signature)
    if method == CLASSIFY_METHOD:
        classification = classification_pb2.ClassificationRequest(model_spec=spec, input=examples)
        log = prediction_log_pb2.ClassifyLog(request=classification)
        return prediction_log_pb2.PredictionLog(classify_log=log)
    regression = regression_pb2.RegressionRequest(model_spec=spec, input=examples)
    return prediction_log_pb2.PredictionLog(
        regress_log=prediction_log_pb2.RegressLog(request=regression)
    )


def _multi_inference_log(
    name: str, methods: Mapping[str, str], examples: input_pb2.Input
) -> prediction_log_pb2.PredictionLog:
    tasks = [
        inference_pb2.InferenceTask(model_spec=_spec(name, signature), method_name=method)
        for signature, method in methods.items()
    ]
    request = inference_pb2.MultiInferenceRequest(tasks=tasks, input=examples)
    return prediction_log_pb2.PredictionLog(
        multi_inference_log=prediction_log_pb2.MultiInferenceLog(request=request)
    )


def _example_list(schema: Schema, table: pa.Table) -> input_pb2.Input:
    examples = write_examples(schema.features, table)
    return input_pb2.Input(example_list=input_pb2.ExampleList(examples=examples))


def _with_context(schema: Schema, table: pa.Table) -> input_pb2.Input:
    (context,) = write_examples(of_side(schema, "context"), table.slice(0, 1))
    examples = write_examples(of_side(schema, "candidate"), table)
    return input_pb2.Input(
        example_list_with_context=input_pb2.ExampleListWithContext(
            examples=examples, context=context
        )
    )


def _spec(name: str, signature: str) -> model_pb2.ModelSpec:
    return model_pb2.ModelSpec(name=name, signature_name=signature)
