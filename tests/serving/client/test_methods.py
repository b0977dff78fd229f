"""The methods of both clients, with the real server and with a stub."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_status_pb2,
    model_management_pb2,
    predict_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

from serving.client import AsyncClient, Client
from serving.common.errors import (
    FailedPrecondition,
    InvalidArgument,
    InvalidFeature,
    NotFound,
    Unimplemented,
)
from serving.common.status import State, VersionStatus
from tests.serving.client.conftest import ANSWERS, Connect, StartStub

CONTEXT = {"user": "ann", "age": 4, "history": ["a", "b"]}
CANDIDATES: list[dict[str, Any]] = [{"price": 1.5, "tags": ["t"]}, {"price": 2.0}, {}]


def test_scores_of_dicts_and_of_tables_are_equal(connect: Connect, shared_address: str) -> None:
    handle = connect(shared_address, timeout=20)
    ranked = handle.ask("rank", CONTEXT, CANDIDATES)
    np.testing.assert_array_equal(ranked["click"], np.float32([105, 6, 2]))
    rows = [{**CONTEXT, **candidate} for candidate in CANDIDATES]
    for answer in (
        handle.ask("rank", pa.Table.from_pylist([CONTEXT]), pa.Table.from_pylist(CANDIDATES)),
        handle.ask("predict_rows", rows),
        handle.ask("predict_rows", pa.Table.from_pylist(rows).to_batches()[0]),
    ):
        assert list(answer) == ["click", "convert"]
        for task, scores in ranked.items():
            np.testing.assert_array_equal(answer[task], scores, strict=True)


def test_metadata_status_health_and_arrays(connect: Connect, shared_address: str) -> None:
    handle = connect(shared_address, version=5, timeout=20)
    metadata = handle.ask("metadata")
    assert (metadata.name, metadata.version) == ("tiny", 5)
    assert {"rank", "serving_default", "regress"} < set(metadata.signatures)
    inputs = metadata.signature("rank").inputs
    assert list(inputs) == ["age", "history", "price", "tags", "user"]
    assert str(inputs["tags"]) == "string (?, ?, ?)"
    assert (inputs["price"].dtype, inputs["price"].shape) == ("float32", (None, None))
    assert handle.ask("status") == [VersionStatus(5, State.AVAILABLE)]
    pair = {"pair": np.float32([[1, 2], [3, 5]])}
    found = handle.ask("predict", pair, signature_name="pair", output_filter=["total"])
    assert {name: values.tolist() for name, values in found.items()} == {"total": [3, 8]}
    assert handle.ask("health") is True
    assert handle.ask("health", "") is True
    with pytest.raises(NotFound):
        handle.ask("health", "ctr")
    absent = connect(shared_address, version=7, timeout=20)
    with pytest.raises(NotFound, match=r"Specific\(tiny, 7\)"):
        absent.ask("predict_rows", [{}])


def test_invalid_features_are_not_sent(connect: Connect, shared_address: str) -> None:
    handle = connect(shared_address, timeout=20)
    for rows, words in (
        ([{"agee": 1}], "Did you mean 'age'?"),
        (pa.table({"agee": [1]}), "Did you mean 'age'?"),
        (pa.table({"age": ["1"]}), "'age': expected an integer. Received: a column of Arrow type"),
        ([7], "Expected a dict of features in row 0. Received: 7"),
    ):
        with pytest.raises(InvalidFeature) as raised:
            handle.ask("predict_rows", rows)
        assert words in str(raised.value)
        assert raised.value.request_id is None, "nothing was sent"
    with pytest.raises(InvalidArgument, match=r"or an Arrow table\. Received: dict"):
        handle.ask("predict_rows", {"age": [1]})
    with pytest.raises(InvalidArgument, match="`rows` must hold at least one row"):
        handle.ask("predict_rows", pa.table({"age": pa.array([], pa.int64())}))
    with pytest.raises(InvalidArgument, match="`candidates` must hold at least one"):
        handle.ask("rank", {}, [])
    with pytest.raises(InvalidFeature, match="Feature 'pair': no tensor holds it"):
        handle.ask("predict", {"pair": np.array([{}])})
    for ragged in ([["a", "b"], ["c"]], [[[1.0], [2.0]], [[3.0, 5.0], [7.0, 11.0]]]):
        with pytest.raises(InvalidFeature, match=r"'tags': expected lists of one length\. Fill up"):
            handle.ask("predict", {"tags": ragged})


def test_version_and_label_are_sent(connect: Connect, start_stub: StartStub) -> None:
    stub = start_stub()
    connect(stub.address, label="stable").predict()
    connect(stub.address, version=7).ask("predict", {}, output_filter=["click"])
    connect(stub.address, label="stable").ask("status")
    labelled, numbered = (
        predict_pb2.PredictRequest.FromString(seen.request) for seen in stub.seen[:2]
    )
    assert labelled.model_spec.version_label == "stable"
    assert numbered.model_spec.version.value == 7
    assert list(numbered.output_filter) == ["click"]
    status = get_model_status_pb2.GetModelStatusRequest.FromString(stub.seen[2].request)
    assert status.model_spec.WhichOneof("version_choice") is None


def test_classify_and_regress_ask_for_the_first_task(
    connect: Connect, start_stub: StartStub
) -> None:
    stub = start_stub()
    handle = connect(stub.address)
    for method in ("classify", "regress"):
        handle.ask(method, [{"price": 1.5}])
    sent = [classification_pb2.ClassificationRequest.FromString(one.request) for one in stub.seen]
    assert [each.model_spec.signature_name for each in sent] == ["classify", "regress"]


def test_reload(connect: Connect, start_stub: StartStub) -> None:
    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.config.add(name="ctr", base_path="/models/ctr")
    answer = model_management_pb2.ReloadConfigResponse()
    answers = {**ANSWERS, "HandleReloadConfigRequest": answer.SerializeToString()}
    stub = start_stub(answers=answers)
    handle = connect(stub.address)
    assert handle.ask("reload", config) is None
    sent = model_management_pb2.ReloadConfigRequest.FromString(stub.seen[0].request)
    assert sent.config == config
    answer.status.error_code, answer.status.error_message = 9, "No such version."
    answers["HandleReloadConfigRequest"] = answer.SerializeToString()
    with pytest.raises(FailedPrecondition, match=r"No such version\.") as raised:
        handle.ask("reload", config, request_id="r-3")
    assert raised.value.request_id == "r-3"
    with pytest.raises(InvalidArgument, match=r"a ModelServerConfig\. Received: str"):
        handle.ask("reload", "model_config_list {}")


def test_model_must_be_named_if_the_server_lists_none(
    connect: Connect, start_stub: StartStub
) -> None:
    handle = connect(start_stub().address, model=None)
    with pytest.raises(InvalidArgument, match="`model` must name the model") as raised:
        handle.predict()
    assert isinstance(raised.value.__cause__, Unimplemented)


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(Client) == public(AsyncClient)
    for name in public(Client):
        assert getattr(Client, name).__doc__ == getattr(AsyncClient, name).__doc__


def test_async_token(start_stub: StartStub) -> None:
    async def token() -> str:
        await asyncio.sleep(0)
        return "fresh"

    async def use(address: str) -> None:
        async with AsyncClient(address, model="tiny", token=token) as client:
            await client.predict({})

    stub = start_stub()
    asyncio.run(use(stub.address))
    assert stub.seen[0].metadata["authorization"] == "Bearer fresh"
