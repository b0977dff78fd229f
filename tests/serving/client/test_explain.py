"""Explanations: Predict on the signature `rank_explained`, sorted and split by the client."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tensorflow.core.framework import tensor_shape_pb2, types_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2

from serving.client.ranking import longest_list, read_ranking
from serving.common.errors import FailedPrecondition, InvalidArgument, InvalidFeature
from serving.encoding.codec import encode
from tests.serving.client.conftest import Connect, StartStub

CANDIDATES = [{"price": 1.5}, {}]


def metadata(version: int, feature: str) -> bytes:
    """Of a model that explains, with a `user` and one feature of the candidates."""
    definitions = get_model_metadata_pb2.SignatureDefMap()
    for key, axes in (("serving_default", 1), ("rank_explained", 2)):
        inputs = definitions.signature_def[key].inputs
        for name, dtype, rank in (
            ("user", types_pb2.DT_STRING, 1),
            (feature, types_pb2.DT_FLOAT, axes),
        ):
            shape = [tensor_shape_pb2.TensorShapeProto.Dim(size=-1)] * rank
            inputs[name].dtype = dtype
            inputs[name].tensor_shape.dim.extend(shape)
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    response.model_spec.version.value = version
    response.metadata["signature_def"].Pack(definitions)
    return response.SerializeToString()


def answers(version: int, feature: str) -> dict[str, bytes]:
    """Two candidates, two tasks, a history padded to four events, and two experts."""
    outputs = {
        "click": [[2.0, 3.0]],
        "buy": [[0.5, 0.25]],
        "attention/user": [[[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]],
        "gate/buy": [[[0.25, 0.75], [1.0, 0.0]]],
        "field/item": [[0.25, 0.5]],
        "known/user": [[[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]],
    }
    predicted = predict_pb2.PredictResponse()
    for name, value in outputs.items():
        encode(np.float32(value), predicted.outputs[name])
    predicted.model_spec.version.value = version
    return {
        "GetModelMetadata": metadata(version, feature),
        "Predict": predicted.SerializeToString(),
    }


def test_scores_ranking_and_weights(connect: Connect, start_stub: StartStub) -> None:
    stub = start_stub(answers=answers(7, "price"))
    handle = connect(stub.address)
    found = handle.ask("explain", {"user": "ann"}, CANDIDATES, rank_by="click")
    sent = predict_pb2.PredictRequest.FromString(stub.seen[-1].request)
    assert sent.model_spec.signature_name == "rank_explained"
    assert found.version == 7
    assert {task: scores.tolist() for task, scores in found.scores.items()} == {
        "buy": [0.5, 0.25],
        "click": [2.0, 3.0],
    }
    assert found.ranking.tolist() == [1, 0]
    np.testing.assert_array_equal(found.attention["user"], [[0.5], [1.0]])  # one value was sent
    np.testing.assert_array_equal(found.gates["buy"], [[0.25, 0.75], [1.0, 0.0]])
    np.testing.assert_array_equal(found.fields["item"], [0.25, 0.5])
    by_name = handle.ask("explain", {"user": "ann"}, CANDIDATES, top_k=1)
    assert by_name.ranking.tolist() == [0], "ranked by `buy`, the first task by name"
    words = "`rank_by` must be one of the tasks buy, click. Received: 'like'"
    with pytest.raises(InvalidArgument, match=words):
        handle.ask("explain", {"user": "ann"}, CANDIDATES, rank_by="like")
    with pytest.raises(InvalidArgument, match=r"`top_k` must not be negative\. Received: -1"):
        handle.ask("explain", {"user": "ann"}, CANDIDATES, top_k=-1)


def test_shares_are_of_known_events_and_sum_to_one() -> None:
    outputs = {
        "click": np.zeros((1, 3), "float32"),
        "attention/seen": np.float32([[[3, 1, -1, 9], [0, 0, 0, 5], [2, 2, 0, 0]]]),
        "known/seen": np.float32([[[1, 0, 1, 0]] * 3]),
    }
    found = read_ranking(outputs, 1, 4, rank_by="", first_task=None, top_k=0)
    assert found.known["seen"].tolist() == [True, False, True, False]
    np.testing.assert_allclose(
        found.shares()["seen"], [[0.75, 0, -0.25, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    )
    assert list(found.scores) == ["click"]


def test_attention_covers_the_longest_list() -> None:
    table = pa.table({"user": ["ann"], "seen": [["a", "b", "c"]]})
    assert longest_list(table) == 3
    assert longest_list({"user": "ann", "seen": np.arange(5), "none": None}) == 5
    assert longest_list({}) == 0


def test_invalid_features_are_not_sent(connect: Connect, start_stub: StartStub) -> None:
    stub = start_stub(answers=answers(1, "price"))
    handle = connect(stub.address)
    for context, candidates, message in (
        ({}, [{"prise": 1}], "Unknown feature 'prise' in candidate 0. Did you mean 'price'?"),
        (pa.table({"user": ["ann", "bo"]}), [{}], "The context must be one row. Received: 2"),
    ):
        with pytest.raises(InvalidFeature) as raised:
            handle.ask("explain", context, candidates)
        assert str(raised.value) == message
    assert "Predict" not in [seen.method for seen in stub.seen]


def test_new_version_with_other_features(connect: Connect, start_stub: StartStub) -> None:
    given = answers(1, "price")
    handle = connect(start_stub(answers=given).address)
    ranking = handle.ask("explain", {"user": "ann"}, CANDIDATES)
    assert ranking.version == 1
    given.update(answers(2, "cost"))
    ranking = handle.ask("explain", {"user": "ann"}, pa.table({"cost": [1.5, None]}))
    assert ranking.version == 2
    with pytest.raises(InvalidFeature, match="Unknown feature 'price' in candidate 0"):
        handle.ask("explain", {"user": "ann"}, CANDIDATES)


def test_model_without_explanations_is_rejected(connect: Connect, shared_address: str) -> None:
    handle = connect(shared_address, timeout=20)
    with pytest.raises(FailedPrecondition, match="cannot explain its scores"):
        handle.ask("explain", {"zzz": 1}, CANDIDATES)
