"""Explanations: what does not fit the model is not sent, and the rest is the server's to say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tensorflow.core.framework import tensor_shape_pb2, types_pb2
from tensorflow_serving.apis import get_model_metadata_pb2

from serving.common.errors import FailedPrecondition, InvalidFeature
from serving.protos import scoring_pb2
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
    ranked = scoring_pb2.RankResponse(ranking=[1, 0])
    ranked.model_spec.version.value = version
    return {
        "GetModelMetadata": metadata(version, feature),
        "Rank": ranked.SerializeToString(),
    }


@pytest.mark.parametrize(
    ("context", "candidates", "sentence"),
    [
        ({"usr": "ann"}, [{}], "Unknown feature 'usr' in the context. Did you mean 'user'?"),
        ({}, [{"prise": 1}], "Unknown feature 'prise' in candidate 0. Did you mean 'price'?"),
        ({"price": 1}, [{}], "Feature 'price' belongs to the candidates. Received in the context."),
        ({}, [{"price": "1"}], "Feature 'price': expected a number. Received: '1' (str)"),
        ({}, pa.table({"pric": [1.0]}), "Unknown feature 'pric' in the candidates. Did you mean"),
        ({}, [7], "Expected a dict of features in candidate 0. Received: 7 (int)"),
        (pa.table({"user": ["ann", "bo"]}), [{}], "The context must be one row. Received: 2"),
    ],
)
def test_what_does_not_fit_is_not_sent(
    connect: Connect, start_stub: StartStub, context: Any, candidates: Any, sentence: str
) -> None:
    stub = start_stub(answers=answers(1, "price"))
    with pytest.raises(InvalidFeature) as raised:
        connect(stub.address).ask("explain", context, candidates)
    assert str(raised.value).startswith(sentence)
    assert "Rank" not in [seen.method for seen in stub.seen]


def test_a_new_version_with_other_features_is_noticed(
    connect: Connect, start_stub: StartStub
) -> None:
    given = answers(1, "price")
    handle = connect(start_stub(answers=given).address)
    ranking = handle.ask("explain", {"user": "ann"}, CANDIDATES)
    assert (ranking.version, ranking.ranking.tolist()) == (1, [1, 0])
    given.update(answers(2, "cost"))
    ranking = handle.ask("explain", {"user": "ann"}, pa.table({"cost": [1.5, None]}))
    assert ranking.version == 2
    with pytest.raises(InvalidFeature, match="Unknown feature 'price' in candidate 0"):
        handle.ask("explain", {"user": "ann"}, CANDIDATES)


def test_a_model_that_cannot_explain_says_so(connect: Connect, shared_address: str) -> None:
    handle = connect(shared_address, timeout=20)
    with pytest.raises(FailedPrecondition, match="cannot explain its scores"):
        handle.ask("explain", {"zzz": 1}, CANDIDATES)
    with pytest.raises(InvalidFeature, match=r"Expected a dict of features in candidate 1\."):
        handle.ask("explain", {}, [{}, 7])
