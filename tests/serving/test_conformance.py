"""The specification's codes and words, through TensorFlow Serving's own stubs alone."""

from __future__ import annotations

import grpc
import numpy as np
import pytest
from google.protobuf import any_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    input_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

from serving.rest.app import HTTP_STATUS
from tests.serving.stubs import (
    ROWS,
    classify,
    examples,
    metadata,
    multi_inference,
    predict,
    regress,
    send,
    status,
    without,
)

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
FAILED = grpc.StatusCode.FAILED_PRECONDITION
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED


ONE = examples({"user": "ann", "price": 1.5})
ALL = "age,history,price,tags,user"
ERRORS = {
    "predict-no-spec": (predict_pb2.PredictRequest(), INVALID, "Missing ModelSpec"),
    "predict-no-name": (predict(""), INVALID, "ModelSpec has no name specified."),
    "metadata-no-spec": (
        get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"]),
        INVALID,
        "Missing ModelSpec",
    ),
    "metadata-no-name": (
        metadata("signature_def", name=""), INVALID, "ModelSpec has no name specified.",
    ),
    "status-no-spec": (
        get_model_status_pb2.GetModelStatusRequest(), INVALID, "Missing ModelSpec",
    ),
    "unknown-model": (
        predict("ctr"), NOT_FOUND, "Servable not found for request: Latest(ctr)",
    ),
    "unknown-model-with-version": (
        predict("ctr", version=5), NOT_FOUND, "Servable not found for request: Specific(ctr, 5)",
    ),
    "unknown-version": (
        predict(version=7), NOT_FOUND, "Servable not found for request: Specific(tiny, 7)",
    ),
    "metadata-unknown-model": (
        metadata("signature_def", name="ctr"), NOT_FOUND,
        "Servable not found for request: Latest(ctr)",
    ),
    "unknown-label": (
        predict(version_label="canary"), INVALID, "Unrecognized servable version label: canary",
    ),
    "metadata-unknown-label": (
        metadata("signature_def", version_label="canary"), INVALID,
        "Unrecognized servable version label: canary",
    ),
    "unknown-signature": (
        predict(signature_name="score"), FAILED, 'Serving signature key "score" not found.',
    ),
    "missing-input": (
        predict(inputs=without("user", "age")), INVALID,
        "input size does not match signature: 3!=5 len({history,price,tags}) != "
        f"len({{{ALL}}}). Sent extra: {{}}. Missing but required: {{age,user}}.",
    ),
    "extra-input": (
        predict(inputs={**ROWS, "sex": [1]}), INVALID,
        "input size does not match signature: 6!=5 len({age,history,price,sex,tags,user}) != "
        f"len({{{ALL}}}). Sent extra: {{sex}}. Missing but required: {{}}.",
    ),
    "misnamed-input": (
        predict(inputs={**without("user"), "usr": [b"a", b"b"]}), INVALID,
        "input size does not match signature: 5!=5 len({age,history,price,tags,usr}) != "
        f"len({{{ALL}}}). Sent extra: {{usr}}. Missing but required: {{user}}.",
    ),
    "no-inputs": (
        predict(inputs={}), INVALID,
        f"input size does not match signature: 0!=5 len({{}}) != len({{{ALL}}}). "
        f"Sent extra: {{}}. Missing but required: {{{ALL}}}.",
    ),
    "unknown-output": (
        predict(output_filter=("click", "like")), INVALID,
        "output tensor alias not found in signature: like "
        "Outputs expected to be in the set {click,convert}.",
    ),
    "duplicate-output": (
        predict(output_filter=("click", "click")), INVALID,
        "duplicate output tensor alias: click",
    ),
    "mistyped-input": (
        predict(inputs={**ROWS, "age": np.float32([1, 2])}), INVALID,
        "input age: expected dtype int64. Received: float32",
    ),
    "string-for-number": (
        predict(inputs={**ROWS, "price": [b"1", b"2"]}), INVALID,
        "input price: expected dtype float32. Received: string",
    ),
    "wrong-rank": (
        predict(inputs={**ROWS, "price": np.float32([[1], [2]])}), INVALID,
        "input price: expected rank 1 and shape (?). Received: rank 2 and shape (2, 1)",
    ),
    "scalar": (
        predict(inputs={**ROWS, "price": np.float32(1)}), INVALID,
        "input price: expected rank 1 and shape (?). Received: rank 0 and shape ()",
    ),
    "wrong-fixed-axis": (
        predict(inputs={"pair": np.ones((2, 3), np.float32)}, signature_name="pair"), INVALID,
        "input pair: expected rank 2 and shape (?, 2). Received: rank 2 and shape (2, 3)",
    ),
    "batches-disagree": (
        predict(inputs={**ROWS, "age": np.int64([1, 2, 3])}), INVALID,
        "inputs must have the same batch size (first dimension). "
        "Received: {'age': 3, 'history': 2, 'price': 2, 'tags': 2, 'user': 2}",
    ),
    "no-metadata-field": (
        metadata(), INVALID, "GetModelMetadataRequest must specify at least one metadata_field",
    ),
    "unknown-metadata-field": (
        metadata("signature_def", "graph"), INVALID, "Metadata field graph is not supported",
    ),
    "status-unknown-model": (
        status(name="ctr"), NOT_FOUND, "Could not find any versions of model ctr",
    ),
    "status-unknown-version": (
        status(version=7), NOT_FOUND, "Could not find version 7 of model tiny",
    ),
    "classify-no-spec": (
        classification_pb2.ClassificationRequest(), INVALID, "Missing ModelSpec",
    ),
    "classify-unknown-signature": (
        classify(ONE, signature_name="x"), INVALID, "No signature was found with the name: x",
    ),
    "classify-wrong-method": (
        classify(ONE, signature_name="regress"), INVALID,
        "Expected classification signature method_name to be tensorflow/serving/classify. "
        "Was: tensorflow/serving/regress",
    ),
    "classify-by-default-signature": (
        classify(ONE, signature_name=""), INVALID,
        "Expected classification signature method_name to be tensorflow/serving/classify. "
        "Was: tensorflow/serving/predict",
    ),
    "classify-no-input": (classify(input_pb2.Input()), INVALID, "Input is empty."),
    "classify-no-examples": (classify(examples()), INVALID, "Input is empty."),
    "classify-context-alone": (
        classify(examples(context={"user": "ann"})), INVALID, "Input is empty.",
    ),
    "classify-unknown-model": (
        classify(ONE, name="ctr"), NOT_FOUND, "Servable not found for request: Latest(ctr)",
    ),
    "regress-no-spec": (regression_pb2.RegressionRequest(), INVALID, "Missing ModelSpec"),
    "regress-unknown-signature": (
        regress(ONE, signature_name="x"), INVALID, "No signature was found with the name: x",
    ),
    "regress-wrong-method": (
        regress(ONE, signature_name="classify"), INVALID,
        "Expected regression signature method_name to be tensorflow/serving/regress. "
        "Was: tensorflow/serving/classify",
    ),
    "regress-no-input": (regress(input_pb2.Input()), INVALID, "Input is empty."),
    "multi-inference-no-task": (
        multi_inference(ONE), INVALID, "ModelSpec has no name specified.",
    ),
    "multi-inference-unknown-signature": (
        multi_inference(ONE, ("x", "regress")), INVALID, "No signature was found with the name: x",
    ),
    "multi-inference-unsupported-method": (
        multi_inference(ONE, ("serving_default", "predict")), UNIMPLEMENTED,
        "Unsupported signature method_name: tensorflow/serving/predict",
    ),
    "multi-inference-wrong-method": (
        multi_inference(ONE, ("classify", "regress")), INVALID,
        "Expected regression signature method_name to be tensorflow/serving/regress. "
        "Was: tensorflow/serving/classify",
    ),
    "multi-inference-twice": (
        multi_inference(ONE, ("regress", "regress"), ("regress", "regress")), INVALID,
        "Duplicate evaluation of signature: regress",
    ),
    "multi-inference-no-input": (
        multi_inference(input_pb2.Input(), ("regress", "regress")), INVALID, "Input is empty.",
    ),
    "reload-no-list": (
        model_management_pb2.ReloadConfigRequest(), INVALID,
        "ServerModelConfig type not supported by HandleReloadConfigRequest. "
        "Only ModelConfigList is currently supported",
    ),
    "reload-custom-config": (
        model_management_pb2.ReloadConfigRequest(
            config=model_server_config_pb2.ModelServerConfig(custom_model_config=any_pb2.Any())
        ),
        INVALID,
        "ServerModelConfig type not supported by HandleReloadConfigRequest. "
        "Only ModelConfigList is currently supported",
    ),
    "long-words-are-cut": (
        predict("m" * 2000), NOT_FOUND,
        ("Servable not found for request: Latest(" + "m" * 2000)[:1024] + "...TRUNCATED",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_status_codes_and_messages(shared_channel: grpc.Channel, case: str) -> None:
    request, code, words = ERRORS[case]
    with pytest.raises(grpc.RpcError) as raised:
        send(shared_channel, request)
    assert (raised.value.code(), raised.value.details()) == (code, words)


def test_malformed_tensors_are_invalid_arguments(
    shared_channel: grpc.Channel,
) -> None:
    huge = predict()
    huge.inputs["price"].tensor_shape.dim[0].size = 2**50
    failing = predict(inputs={"values": np.ones(5, np.float32)}, signature_name="fail")
    for request, words in ((huge, "tensor parsing error: price: "), (failing, "reshape")):
        with pytest.raises(grpc.RpcError) as raised:
            send(shared_channel, request)
        assert raised.value.code() == INVALID
        assert words in raised.value.details()


HTTP = {
    400: "INVALID_ARGUMENT FAILED_PRECONDITION OUT_OF_RANGE", 403: "PERMISSION_DENIED",
    404: "NOT_FOUND", 409: "ABORTED ALREADY_EXISTS", 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED",
    500: "UNKNOWN INTERNAL", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip


@pytest.mark.parametrize("status", HTTP)
def test_every_http_status_is_mapped(status: int) -> None:
    assert {HTTP_STATUS[name] for name in HTTP[status].split()} == {status}
