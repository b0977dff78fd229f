"""A client written as TensorFlow Serving's examples receives the same answers."""

from __future__ import annotations

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
)

from tests.serving.stubs import metadata, predict, send


def test_scores_are_typed_fields_with_the_version(shared_channel: grpc.Channel) -> None:
    response = send(shared_channel, predict())
    np.testing.assert_array_equal(response.outputs["click"].float_val, [105.0, 0.0])
    np.testing.assert_array_equal(response.outputs["convert"].float_val, [34.0, 0.0])
    assert [dim.size for dim in response.outputs["click"].tensor_shape.dim] == [2]
    assert response.model_spec.name == "tiny"
    assert response.model_spec.version.value == 5
    assert response.model_spec.signature_name == "serving_default"


def test_signature_version_and_filter_are_used(shared_channel: grpc.Channel) -> None:
    pair = {"pair": np.float32([[1, 2], [3, 4], [5, 6]])}
    request = predict(inputs=pair, signature_name="pair", version=5, output_filter=("words",))
    response = send(shared_channel, request)
    assert set(response.outputs) == {"words"}
    words = tf.make_ndarray(response.outputs["words"])
    assert words.shape == (3, 2)
    assert float(words[2, 1]) == 6.0
    assert response.model_spec.signature_name == "pair"


def test_the_metadata_is_the_signatures_of_the_saved_model(shared_channel: grpc.Channel) -> None:
    response = send(shared_channel, metadata("signature_def"))
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    rank = signatures.signature_def["rank"]
    assert rank.method_name == "tensorflow/serving/predict"
    assert rank.inputs["tags"].dtype == tf.string.as_datatype_enum
    assert [dim.size for dim in rank.inputs["tags"].tensor_shape.dim] == [-1, -1, -1]
    assert set(rank.outputs) == {"click", "convert"}
    assert (response.model_spec.name, response.model_spec.version.value) == ("tiny", 5)
