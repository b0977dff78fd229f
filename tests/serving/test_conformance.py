"""The specification's codes and words, through TensorFlow Serving's own stubs alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
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

from serving.config.server_config import ServerConfig
from serving.rest.app import HTTP_STATUS
from serving.server.server import create_server
from tests.serving.exports import install
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

PREDICT_METHOD = "/tensorflow.serving.PredictionService/Predict"


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


def test_malformed_messages_do_not_stop_the_server(shared_channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        shared_channel.unary_unary(PREDICT_METHOD)(b"\xff\xff\xff", timeout=10.0)
    assert raised.value.code() == grpc.StatusCode.INTERNAL
    send(shared_channel, predict())


@pytest.fixture(scope="module")
def batched_channel(
    tmp_path_factory: pytest.TempPathFactory, twofold: Path
) -> Iterator[grpc.Channel]:
    """Version 5 of `tiny`, in batches of at most two rows."""
    folder = tmp_path_factory.mktemp("batched")
    install(twofold, folder / "tiny", 5)
    parameters = folder / "batching"
    parameters.write_text(
        "max_batch_size { value: 2 } max_enqueued_batches { value: 1 } "
        "num_batch_threads { value: 1 }"
    )
    server, port = create_server(
        ServerConfig(
            str(folder / "tiny"), port=0, enable_batching=True,
            batching_parameters_file=str(parameters), reload_root=str(folder.parent),
        )
    )  # fmt: skip
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    server.stop()


def _error(channel: grpc.Channel, request: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        send(channel, request)
    return raised.value.code(), raised.value.details()


def test_a_request_larger_than_a_batch_is_rejected(batched_channel: grpc.Channel) -> None:
    request = predict(inputs={"values": np.ones(3, np.float32)}, signature_name="double")
    words = "Task size 3 is larger than maximum input batch size 2"
    assert _error(batched_channel, request) == (INVALID, words)


def test_a_full_queue_is_unavailable(batched_channel: grpc.Channel) -> None:
    """One computes, two wait, and there is no room for more."""
    wait = predict(inputs={"seconds": np.float32([0.4])}, signature_name="wait")
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(send, batched_channel, wait) for _ in range(8)]
        failures = [call.exception() for call in calls]
    refused = {(f.code(), f.details()) for f in failures if f is not None}
    assert refused == {
        (
            grpc.StatusCode.UNAVAILABLE,
            "The batch scheduling queue to which this task was submitted is full",
        )
    }
    assert failures.count(None) >= 3


def test_requests_of_other_shapes_use_another_batch(batched_channel: grpc.Channel) -> None:
    """TensorFlow Serving's FAILED_PRECONDITION of a batch without padding: its one row that no
    request meets here, beside RESOURCE_EXHAUSTED of resources, which nothing declares."""
    wait = predict(inputs={"seconds": np.float32([0.4])}, signature_name="wait")
    lists = [np.array([[b"i"] * events], object) for events in (1, 7)]
    rows = [{name: values[:1] for name, values in ROWS.items()} | {"history": h} for h in lists]
    with ThreadPoolExecutor(3) as pool:
        busy = pool.submit(send, batched_channel, wait)
        answers = list(pool.map(lambda row: send(batched_channel, predict(inputs=row)), rows))
        assert busy.result().outputs
    clicks = [tf.make_ndarray(answer.outputs["click"]).tolist() for answer in answers]
    assert clicks == [[3 + 1 + 100], [3 + 7 + 100]]


def test_invalid_reloads_are_rejected(batched_channel: grpc.Channel, tmp_path: Path) -> None:
    request = model_management_pb2.ReloadConfigRequest()
    config = request.config.model_config_list.config.add(
        name="tiny", base_path=str(tmp_path), model_platform="tensorflow"
    )
    config.version_labels["canary"] = 7
    assert _error(batched_channel, request) == (
        FAILED,
        "Request to assign label to version 7 of model tiny, which is not currently available "
        "for inference",
    )
    request.config.model_config_list.config.add().CopyFrom(config)
    assert _error(batched_channel, request) == (
        INVALID, "Illegal to list model tiny multiple times in config list",
    )  # fmt: skip


def test_labels_without_any_model_are_unavailable(tmp_path: Path) -> None:
    models = tmp_path / "models.config"
    models.write_text("model_config_list { }")
    server, port = create_server(ServerConfig(model_config_file=str(models), port=0))
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        code, words = _error(channel, predict(version_label="canary"))
    server.stop()
    assert (code, words) == (grpc.StatusCode.UNAVAILABLE, "Model labels does not init yet.canary")


HTTP = {
    400: "INVALID_ARGUMENT FAILED_PRECONDITION OUT_OF_RANGE", 403: "PERMISSION_DENIED",
    404: "NOT_FOUND", 409: "ABORTED ALREADY_EXISTS", 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED",
    500: "UNKNOWN INTERNAL", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip


@pytest.mark.parametrize("status", HTTP)
def test_every_http_status_is_mapped(status: int) -> None:
    assert {HTTP_STATUS[name] for name in HTTP[status].split()} == {status}
