"""Requests and stubs of TensorFlow Serving alone: nothing of the project's own client."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

ROWS: dict[str, Any] = {
    "user": np.array([b"ann", b""], object),
    "age": np.array([31, -(2**63)], np.int64),
    "history": np.array([[b"i1", b"i2", b""], [b"", b"", b""]], object),
    "price": np.array([1.5, np.nan], np.float32),
    "tags": np.array([[b"t"], [b""]], object),
}


def predict(
    name: str = "tiny",
    *,
    inputs: dict[str, Any] | None = None,
    output_filter: tuple[str, ...] = (),
    **spec: Any,
) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest(output_filter=output_filter)
    request.model_spec.name = name
    request.model_spec.signature_name = spec.get("signature_name", "")
    if "version" in spec:
        request.model_spec.version.value = spec["version"]
    if "version_label" in spec:
        request.model_spec.version_label = spec["version_label"]
    for key, value in (ROWS if inputs is None else inputs).items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    return request


def example(**features: Any) -> tf.train.Example:
    """An Example of one value a feature: text, or a float."""
    found = tf.train.Example()
    for name, value in features.items():
        feature = found.features.feature[name]
        if isinstance(value, str):
            feature.bytes_list.value.append(value.encode())
        else:
            feature.float_list.value.append(value)
    return found


def examples(*rows: dict[str, Any], context: dict[str, Any] | None = None) -> input_pb2.Input:
    """Rows as Examples, beside their context where there is one."""
    found = [example(**row) for row in rows]
    if context is None:
        return input_pb2.Input(example_list=input_pb2.ExampleList(examples=found))
    return input_pb2.Input(
        example_list_with_context=input_pb2.ExampleListWithContext(
            examples=found, context=example(**context)
        )
    )


def classify(sent: input_pb2.Input, **spec: Any) -> classification_pb2.ClassificationRequest:
    spec = {"signature_name": "classify", **spec}
    return classification_pb2.ClassificationRequest(
        model_spec=predict(**spec).model_spec, input=sent
    )


def regress(sent: input_pb2.Input, **spec: Any) -> regression_pb2.RegressionRequest:
    spec = {"signature_name": "regress", **spec}
    return regression_pb2.RegressionRequest(model_spec=predict(**spec).model_spec, input=sent)


def multi_inference(
    sent: input_pb2.Input, *tasks: tuple[str, str], name: str = "tiny"
) -> inference_pb2.MultiInferenceRequest:
    """Tasks are pairs of a signature and a method, `classify` or `regress`."""
    request = inference_pb2.MultiInferenceRequest(input=sent)
    for signature, method in tasks:
        spec = predict(name, signature_name=signature).model_spec
        request.tasks.add(model_spec=spec, method_name=f"tensorflow/serving/{method}")
    return request


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in ROWS.items() if name not in names}


def metadata(*fields: str, **spec: Any) -> get_model_metadata_pb2.GetModelMetadataRequest:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    request.model_spec.CopyFrom(predict(**spec).model_spec)
    return request


def status(**spec: Any) -> get_model_status_pb2.GetModelStatusRequest:
    return get_model_status_pb2.GetModelStatusRequest(model_spec=predict(**spec).model_spec)


def read_by_tensorflow(proto: tensor_pb2.TensorProto) -> np.ndarray:
    """The array of a tensor, read as the C++ server reads it; `tf.make_ndarray` knows less."""
    dtype = tf.as_dtype(proto.dtype)
    found = tf.io.parse_tensor(proto.SerializeToString(), dtype).numpy()
    return found.view(dtype.as_numpy_dtype) if dtype.is_quantized else found


def send(channel: grpc.Channel, request: Any, metadata: Any = None) -> Any:
    prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    models = model_service_pb2_grpc.ModelServiceStub(channel)
    methods = {
        predict_pb2.PredictRequest: prediction.Predict,
        get_model_metadata_pb2.GetModelMetadataRequest: prediction.GetModelMetadata,
        classification_pb2.ClassificationRequest: prediction.Classify,
        regression_pb2.RegressionRequest: prediction.Regress,
        inference_pb2.MultiInferenceRequest: prediction.MultiInference,
        get_model_status_pb2.GetModelStatusRequest: models.GetModelStatus,
        model_management_pb2.ReloadConfigRequest: models.HandleReloadConfigRequest,
    }
    return methods[type(request)](request, timeout=10.0, metadata=metadata)
