"""The specification's codes and words, through TensorFlow Serving's own stubs alone."""

from __future__ import annotations

from typing import Any

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

from serving.common.errors import HTTP_STATUS
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
NO_SPEC, NO_NAME = "Missing ModelSpec", "ModelSpec has no name specified."
NO_MODEL = "Servable not found for request: Latest(ctr)"
NO_SIGNATURE = "No signature was found with the name: x"
ONLY_LISTS = (
    "ServerModelConfig type not supported by HandleReloadConfigRequest. "
    "Only ModelConfigList is currently supported"
)
METADATA = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
CUSTOM = model_server_config_pb2.ModelServerConfig(custom_model_config=any_pb2.Any())
PAIR = {"pair": np.ones((2, 3), np.float32)}
Reload = model_management_pb2.ReloadConfigRequest
Case = tuple[Any, grpc.StatusCode, str]


def _inputs(words: str, inputs: dict[str, Any], **options: Any) -> Case:
    return predict(inputs=inputs, **options), INVALID, words


def _names(sent: str, extra: str, missing: str, inputs: dict[str, Any]) -> Case:
    sizes = f"{len(inputs)}!=5 len({{{sent}}}) != len({{{ALL}}})"
    ends = f"Sent extra: {{{extra}}}. Missing but required: {{{missing}}}."
    return _inputs(f"input size does not match signature: {sizes}. {ends}", inputs)


def _method(kind: str, wanted: str, found: str, request: Any) -> Case:
    words = f"Expected {kind} signature method_name to be tensorflow/serving/{wanted}. "
    return request, INVALID, f"{words}Was: tensorflow/serving/{found}"


ERRORS: list[Case] = [
    (predict_pb2.PredictRequest(), INVALID, NO_SPEC),
    (METADATA, INVALID, NO_SPEC),
    (get_model_status_pb2.GetModelStatusRequest(), INVALID, NO_SPEC),
    (classification_pb2.ClassificationRequest(), INVALID, NO_SPEC),
    (regression_pb2.RegressionRequest(), INVALID, NO_SPEC),
    (predict(""), INVALID, NO_NAME),
    (metadata("signature_def", name=""), INVALID, NO_NAME),
    (multi_inference(ONE), INVALID, NO_NAME),
    (predict("ctr"), NOT_FOUND, NO_MODEL),
    (metadata("signature_def", name="ctr"), NOT_FOUND, NO_MODEL),
    (classify(ONE, name="ctr"), NOT_FOUND, NO_MODEL),
    (predict("ctr", version=5), NOT_FOUND, "Servable not found for request: Specific(ctr, 5)"),
    (predict(version=7), NOT_FOUND, "Servable not found for request: Specific(tiny, 7)"),
    (status(name="ctr"), NOT_FOUND, "Could not find any versions of model ctr"),
    (status(version=7), NOT_FOUND, "Could not find version 7 of model tiny"),
    (predict(version_label="canary"), INVALID, "Unrecognized servable version label: canary"),
    (metadata("signature_def", version_label="canary"), INVALID,
     "Unrecognized servable version label: canary"),
    (predict(signature_name="score"), FAILED, 'Serving signature key "score" not found.'),
    _names("history,price,tags", "", "age,user", without("user", "age")),
    _names("age,history,price,sex,tags,user", "sex", "", {**ROWS, "sex": [1]}),
    _names("age,history,price,tags,usr", "usr", "user", {**without("user"), "usr": [b"a", b"b"]}),
    _names("", "", ALL, {}),
    (predict(output_filter=("click", "like")), INVALID,
     "output tensor alias not found in signature: like "
     "Outputs expected to be in the set {click,convert}."),
    (predict(output_filter=("click",) * 2), INVALID, "duplicate output tensor alias: click"),
    _inputs("input age: expected dtype int64. Received: float32",
            {**ROWS, "age": np.float32([1, 2])}),
    _inputs("input price: expected dtype float32. Received: string",
            {**ROWS, "price": [b"1", b"2"]}),
    _inputs("input price: expected rank 1 and shape (?). Received: rank 2 and shape (2, 1)",
            {**ROWS, "price": np.float32([[1], [2]])}),
    _inputs("input price: expected rank 1 and shape (?). Received: rank 0 and shape ()",
            {**ROWS, "price": np.float32(1)}),
    _inputs("input pair: expected rank 2 and shape (?, 2). Received: rank 2 and shape (2, 3)",
            PAIR, signature_name="pair"),
    _inputs("inputs must have the same batch size (first dimension). "
            "Received: {'age': 3, 'history': 2, 'price': 2, 'tags': 2, 'user': 2}",
            {**ROWS, "age": np.int64([1, 2, 3])}),
    (metadata(), INVALID, "GetModelMetadataRequest must specify at least one metadata_field"),
    (metadata("signature_def", "graph"), INVALID, "Metadata field graph is not supported"),
    (classify(ONE, signature_name="x"), INVALID, NO_SIGNATURE),
    (regress(ONE, signature_name="x"), INVALID, NO_SIGNATURE),
    (multi_inference(ONE, ("x", "regress")), INVALID, NO_SIGNATURE),
    _method("classification", "classify", "regress", classify(ONE, signature_name="regress")),
    _method("classification", "classify", "predict", classify(ONE, signature_name="")),
    _method("regression", "regress", "classify", regress(ONE, signature_name="classify")),
    _method("regression", "regress", "classify", multi_inference(ONE, ("classify", "regress"))),
    (multi_inference(ONE, ("serving_default", "predict")), UNIMPLEMENTED,
     "Unsupported signature method_name: tensorflow/serving/predict"),
    (multi_inference(ONE, *[("regress", "regress")] * 2), INVALID,
     "Duplicate evaluation of signature: regress"),
    (classify(input_pb2.Input()), INVALID, "Input is empty."),
    (classify(examples()), INVALID, "Input is empty."),
    (classify(examples(context={"user": "ann"})), INVALID, "Input is empty."),
    (regress(input_pb2.Input()), INVALID, "Input is empty."),
    (multi_inference(input_pb2.Input(), ("regress", "regress")), INVALID, "Input is empty."),
    (Reload(), INVALID, ONLY_LISTS),
    (Reload(config=CUSTOM), INVALID, ONLY_LISTS),
    (predict("m" * 2000), NOT_FOUND,
     ("Servable not found for request: Latest(" + "m" * 2000)[:1024] + "...TRUNCATED"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "code", "words"), ERRORS)
def test_status_codes_and_messages(
    shared_channel: grpc.Channel, asked: Any, code: grpc.StatusCode, words: str
) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        send(shared_channel, asked)
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
