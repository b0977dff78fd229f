"""What the options of a server do, through its ports: TensorFlow Serving's stubs, HTTP, gRPC."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow.parquet as pq
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import model_management_pb2, prediction_log_pb2

from serving.client import Client, Tls
from serving.common.errors import (
    InvalidArgument,
    NotFound,
    ServingError,
    Unauthenticated,
    Unavailable,
)
from serving.config.files import METRICS_PATH
from serving.config.server_config import ServerConfig
from serving.protos import scoring_pb2_grpc
from serving.server.server import Server, create_server
from tests.serving.certificates import make_authority, make_certificate, needs_openssl
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install, write_warmup
from tests.serving.rank_messages import make_rank_request
from tests.serving.stubs import predict, send

CONTEXT = {"user": "ann", "age": 31}
ROW = {**CONTEXT, "price": 1.5}
CANDIDATES = [{"price": 1.5}, {"price": 7.0}]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _write(tmp_path: Path, name: str, text: str) -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def _models(tmp_path: Path, *entries: str) -> str:
    configs = "".join(f"config {{ {entry} }}" for entry in entries)
    return _write(tmp_path, "models.config", f"model_config_list {{ {configs} }}")


def _entry(name: str, base_path: Path, more: str = "") -> str:
    return f'name: "{name}" base_path: "{base_path}" model_platform: "tensorflow" {more}'


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[Server, str]]]:
    """Starts servers of any options on free ports; they stop with the test."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: str, **options: Any) -> tuple[Server, str]:
            settings = {"file_system_poll_wait_seconds": 0.0, "grace_seconds": 5.0, **options}
            server, port = create_server(ServerConfig(*arguments, port=0, **settings))
            server.start()
            stack.callback(server.stop)
            return server, f"127.0.0.1:{port}"

        yield start


def _health(address: str, name: str) -> str:
    with grpc.insecure_channel(address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service=name), timeout=10
        )
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def test_a_model_config_file_is_read_alone(
    start: StartServer, tmp_path: Path, base_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """TensorFlow Serving's images always name a model and its folder beside it."""
    models = _models(tmp_path, _entry("a", base_path))
    server, _ = start("/models/model", model_name="model", model_config_file=models)
    assert [name for name, one in server.manager.models.items() if one.is_available] == ["a"]
    assert "`model_base_path` is not read" in caplog.text


def test_a_warmup_of_no_iterations_is_one_of_one(
    start: StartServer, tmp_path: Path, base_path: Path
) -> None:
    write_warmup(base_path / "5", records=[b"no record"])
    server, _ = start(str(base_path), num_request_iterations_for_warmup=0)
    assert not server.manager.models["tiny"].is_available


def test_models_labels_and_reload(
    start: StartServer, tmp_path: Path, base_path: Path, threefold: Path
) -> None:
    install(threefold, base_path, 6)
    policy = "model_version_policy { specific { versions: 5 versions: 6 } }"
    labels = 'version_labels { key: "stable" value: 5 } version_labels { key: "canary" value: 6 }'
    models = _models(tmp_path, _entry("a", base_path, policy + labels), _entry("b", base_path))
    server, address = start(model_config_file=models)
    with Client(address, model="a", label="stable") as stable, Client(address, model="b") as latest:
        assert stable.predict_rows([ROW])["click"] == [3.0]
        assert latest.predict_rows([ROW])["click"] == [4.5]
        with Client(address, model="a", label="canary") as canary:
            assert canary.predict_rows([ROW])["click"] == [4.5]

        request = model_management_pb2.ReloadConfigRequest()
        config = request.config.model_config_list.config
        config.add(name="a", base_path=str(base_path), model_platform="tensorflow")
        config.add(name="c", base_path=str(base_path), model_platform="tensorflow")
        with grpc.insecure_channel(address) as channel:
            send(channel, request)
        with pytest.raises(NotFound, match=r"Servable not found for request: Latest\(b\)"):
            latest.predict_rows([ROW])
        with pytest.raises(InvalidArgument, match="Unrecognized servable version label: stable"):
            stable.predict_rows([ROW])
    with Client(address, model="c") as client:
        assert client.predict_rows([ROW])["click"] == [4.5]
        assert client.health()
    assert [_health(address, name) for name in ("a", "c", "")] == ["SERVING"] * 3
    assert server.health.is_serving


def test_batches_are_made_and_counted(start: StartServer, base_path: Path, tmp_path: Path) -> None:
    port = _free_port()
    monitoring = _write(tmp_path, "monitoring", "prometheus_config { enable: true }")
    batching = _write(
        tmp_path, "batching",
        "max_batch_size { value: 64 } batch_timeout_micros { value: 2000 } "
        "num_batch_threads { value: 1 } allowed_batch_sizes: 16 allowed_batch_sizes: 64",
    )  # fmt: skip
    _, address = start(
        str(base_path), model_name="tiny", enable_batching=True, batching_parameters_file=batching,
        rest_api_port=port, monitoring_config_file=monitoring,
    )  # fmt: skip
    with Client(address, model="tiny") as client, ThreadPoolExecutor(12) as pool:

        def ask(price: float) -> float:
            return float(client.predict_rows([{**ROW, "price": price}])["click"][0])

        prices = np.arange(200) / 4
        assert list(pool.map(ask, prices.tolist())) == (2 * prices).tolist()
        scores = list(
            pool.map(lambda n: client.rank(CONTEXT, CANDIDATES[:n])["click"], [1, 2] * 20)
        )
        for found, count in zip(scores, [1, 2] * 20, strict=True):
            np.testing.assert_array_equal(found, [3.0, 14.0][:count])
    page = _get(port, "/monitoring/prometheus/metrics")
    value = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in page if line[0] == ":"
    }
    assert value[':tensorflow:serving:request_count{model_name="tiny",status="OK"}'] == 240
    rows = value[':recsys_attn:serving:batch_size_sum{model_name="tiny"}']
    assert rows > 2 * 240, "most were computed with others"


def _post(port: int, body: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/models/tiny:predict", body)
        return connection.getresponse().status


def _get(port: int, path: str) -> list[str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().read().decode().splitlines()


@needs_openssl
def test_tls_of_both_ends_on_both_ports(
    start: StartServer, base_path: Path, tmp_path: Path
) -> None:
    authority = make_authority(tmp_path)
    server = make_certificate(tmp_path, authority, "localhost")
    client = make_certificate(tmp_path, authority, "caller", client=True)
    texts = {
        "server_key": server.key, "server_cert": server.certificate,
        "custom_ca": authority.certificate,
    }  # fmt: skip
    config = " ".join(f"{name}: {json.dumps(path.read_text())}" for name, path in texts.items())
    port = _free_port()
    _, address = start(
        str(base_path), model_name="tiny", host="0.0.0.0", rest_api_port=port,
        ssl_config_file=_write(tmp_path, "ssl", config + " client_verify: true"),
    )  # fmt: skip
    tls = Tls(str(authority.certificate), certificate=str(client.certificate), key=str(client.key))
    with Client(address.replace("127.0.0.1", "localhost"), model="tiny", tls=tls) as known:
        assert known.predict_rows([ROW])["click"] == [3.0]
    unknown = Tls(str(authority.certificate))
    with (
        Client(address.replace("127.0.0.1", "localhost"), model="tiny", tls=unknown) as nobody,
        pytest.raises(Unavailable),
    ):
        nobody.predict_rows([ROW])
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with pytest.raises(OSError, match=r"(?i)certificate|reset|eof|closed"):
        _https(port, context)
    context.load_cert_chain(client.certificate, client.key)
    assert _https(port, context)["model_version_status"][0]["state"] == "AVAILABLE"


def _https(port: int, context: ssl.SSLContext) -> Any:
    connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
    with contextlib.closing(connection):
        connection.request("GET", "/v1/models/tiny")
        return json.load(connection.getresponse())


def test_tokens_on_both_ports(start: StartServer, base_path: Path, tmp_path: Path) -> None:
    port = _free_port()
    tokens = _write(tmp_path, "tokens", "one\ntwo\n")
    _, address = start(
        str(base_path), model_name="tiny", auth_token_file=tokens, rest_api_port=port
    )
    for token in ("one", "two"):
        with Client(address, model="tiny", token=token) as client:
            assert client.predict_rows([ROW])["click"] == [3.0]
    for token, words in ((None, "A token is needed"), ("three", "Invalid token")):
        with (
            Client(address, model="tiny", token=token) as client,
            pytest.raises(Unauthenticated, match=words),
        ):
            client.predict_rows([ROW])
    assert _health(address, "tiny") == "SERVING", "probes have no token"
    assert "A token is needed" in "".join(_get(port, "/v1/models/tiny"))
    assert _get(port, "/readyz") == ["ready"]


def test_limits(start: StartServer, base_path: Path) -> None:
    _, address = start(str(base_path), model_name="tiny", max_candidates=3)
    with Client(address, model="tiny") as client:
        assert len(client.predict_rows([ROW] * 3)["click"]) == 3
        with pytest.raises(InvalidArgument, match=r"may have 3 rows or candidates. Received: 4"):
            client.predict_rows([ROW] * 4)
        with pytest.raises(InvalidArgument, match="Received: 4"):
            client.rank(CONTEXT, [{"price": 1.0}] * 4)


def test_what_is_too_much_at_once_is_refused(start: StartServer, base_path: Path) -> None:
    _, address = start(str(base_path), model_name="tiny", max_concurrent_requests=2)
    wait = predict(inputs={"seconds": np.float32([0.5])}, signature_name="wait")

    def ask(channel: grpc.Channel) -> str:
        try:
            send(channel, wait)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"

    with grpc.insecure_channel(address) as channel, ThreadPoolExecutor(6) as pool:
        found = sorted(pool.map(lambda _: ask(channel), range(6)))
    assert found == ["OK", "OK", *["RESOURCE_EXHAUSTED"] * 4]


def test_probes_metrics_and_refusals_do_not_wait_for_what_computes(
    start: StartServer, base_path: Path, tmp_path: Path
) -> None:
    port = _free_port()
    monitoring = _write(tmp_path, "monitoring", "prometheus_config { enable: true }")
    _, address = start(
        str(base_path), model_name="tiny", grpc_max_threads=1, max_concurrent_requests=2,
        rest_api_port=port, monitoring_config_file=monitoring,
    )  # fmt: skip
    wait = predict(inputs={"seconds": np.float32([1.5])}, signature_name="wait")
    body = json.dumps({"signature_name": "wait", "instances": [1.5]})
    with grpc.insecure_channel(address) as channel, ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(send, channel, wait), pool.submit(_post, port, body)]
        time.sleep(0.5)
        with pytest.raises(grpc.RpcError) as raised:
            send(channel, predict())
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert _post(port, body) == 429
        assert _health(address, "tiny") == "SERVING"
        assert any("request_count" in line for line in _get(port, METRICS_PATH))
        assert not any(call.done() for call in busy)
        assert busy[1].result() == 200


def test_a_unix_socket(start: StartServer, base_path: Path, tmp_path: Path) -> None:
    start(str(base_path), model_name="tiny", grpc_socket_path=str(tmp_path / "socket"))
    with grpc.insecure_channel(f"unix:{tmp_path / 'socket'}") as channel:
        assert send(channel, predict()).outputs


def test_the_prediction_log_has_every_kind_of_request(base_path: Path, tmp_path: Path) -> None:
    server, port = create_server(
        ServerConfig(
            str(base_path), model_name="tiny", port=0, prediction_log_dir=str(tmp_path / "log"),
            prediction_log_sampling_rate=1.0, grace_seconds=5.0,
        )
    )  # fmt: skip
    server.start()
    with Client(f"127.0.0.1:{port}", model="tiny") as client:
        client.predict_rows([ROW], request_id="r1")
        client.rank(CONTEXT, CANDIDATES, request_id="r2")
        client.regress([{"price": 1.5}], signature_name="regress", request_id="r3")
        with pytest.raises(ServingError):
            client.explain(CONTEXT, CANDIDATES, request_id="r4")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = scoring_pb2_grpc.ScoringServiceStub(channel)
        stub.Rank(make_rank_request("tiny", CONTEXT, CANDIDATES), metadata=[("x-request-id", "r5")])
    server.stop()
    (file,) = (tmp_path / "log").glob("*.parquet")
    rows = {row["request_id"]: row for row in pq.read_table(file).to_pylist()}
    assert {name: row["method"] for name, row in rows.items()} == {
        "r1": "Predict", "r2": "Predict", "r3": "Regress", "r5": "Rank",
    }  # fmt: skip
    by_rank = prediction_log_pb2.PredictionLog.FromString(rows["r5"]["log"]).predict_log
    by_client = prediction_log_pb2.PredictionLog.FromString(rows["r2"]["log"]).predict_log
    assert rows["r5"]["signature"] == by_rank.request.model_spec.signature_name == "rank"
    np.testing.assert_array_equal(
        np.frombuffer(by_rank.request.inputs["price"].tensor_content, np.float32), [1.5, 7.0]
    )
    assert set(by_rank.response.outputs) == set(by_client.response.outputs)


def test_a_shadow_is_seen_in_the_metrics(
    start: StartServer, tmp_path: Path, base_path: Path, threefold: Path
) -> None:
    install(threefold, base_path, 6)
    policy = "model_version_policy { specific { versions: 5 versions: 6 } }"
    models = _models(tmp_path, _entry("tiny", base_path, policy))
    port = _free_port()
    start(
        model_config_file=models, shadow="tiny:5:1.0", rest_api_port=port,
        monitoring_config_file=_write(tmp_path, "m", "prometheus_config { enable: true }"),
    )  # fmt: skip
    body = {"signature_name": "double", "instances": [1.5]}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/v1/models/tiny:predict", json.dumps(body))
    assert json.load(connection.getresponse()) == {"predictions": [3.0]}
    connection.close()
    line = (
        ':recsys_attn:serving:shadow_difference_sum{model_name="tiny",task="doubled",version="5"}'
    )
    wait_until(lambda: f"{line} 0.0" in _get(port, "/monitoring/prometheus/metrics"))


def test_a_file_that_is_wrong_is_told_before_anything_starts(
    base_path: Path, tmp_path: Path
) -> None:
    wrong = _write(tmp_path, "wrong", "what is this")
    for option in ("ssl_config_file", "batching_parameters_file"):
        with pytest.raises(InvalidArgument, match=wrong):
            create_server(
                ServerConfig(str(base_path), enable_batching=True, port=0, **{option: wrong})
            )
    with pytest.raises(InvalidArgument, match="`shadow` needs `monitoring_config_file`"):
        create_server(ServerConfig(str(base_path), port=0, shadow="tiny:5:0.1"))
    with pytest.raises(InvalidArgument, match="KEY=VALUE"):
        create_server(ServerConfig(str(base_path), port=0, grpc_channel_arguments="x"))
