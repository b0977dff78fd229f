"""Each option of a server has its effect, through its ports: gRPC, REST, metrics and files."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pyarrow.parquet as pq
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import prediction_log_pb2

from serving.client import Client, Tls
from serving.common.errors import InvalidArgument, ServingError, Unauthenticated, Unavailable
from serving.config.files import METRICS_PATH
from serving.config.server_config import ServerConfig
from serving.protos import scoring_pb2_grpc
from serving.server.server import Server, create_server
from tests.serving.certificates import make_authority, make_certificate, needs_openssl
from tests.serving.commands import free_port
from tests.serving.conftest import wait_until
from tests.serving.exports import install, write_warmup
from tests.serving.rank_messages import make_rank_request
from tests.serving.stubs import predict, send

CONTEXT = {"user": "ann", "age": 31}
ROW = {**CONTEXT, "price": 1.5}
CANDIDATES = [{"price": 1.5}, {"price": 7.0}]
MONITORING = "prometheus_config { enable: true }"
BATCHING = (
    "max_batch_size { value: 64 } batch_timeout_micros { value: 2000 } "
    "num_batch_threads { value: 1 } allowed_batch_sizes: 16 allowed_batch_sizes: 64"
)
MODELS = """model_config_list { config { name: "tiny" base_path: "%s"
model_version_policy { specific { versions: 5 versions: 6 } }
version_labels { key: "stable" value: 5 } } }"""


class Running(NamedTuple):
    """A server, and its addresses."""

    server: Server
    address: str
    rest_port: int

    def client(self, **options: Any) -> Client:
        return Client(self.address, model="tiny", **options)

    def ask(self, path: str, body: Any = None) -> tuple[int, str]:
        """The status and the body of a response to HTTP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET" if body is None else "POST", path, json.dumps(body))
            response = connection.getresponse()
            return response.status, response.read().decode()

    def metric(self, series: str) -> float:
        lines = self.ask(METRICS_PATH)[1].splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(series))


Start = Callable[..., Running]


@pytest.fixture
def start(base_path: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts servers of a model; the texts of options `..._file` are written to files."""
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Running:
            for name, value in options.items():
                if name.endswith("_file"):
                    (tmp_path / name).write_text(value)
                    options[name] = str(tmp_path / name)
            if "monitoring_config_file" in options:
                options["rest_api_port"] = free_port()
            settings = {
                "model_base_path": str(base_path), "model_name": "tiny", "port": 0,
                "file_system_poll_wait_seconds": 0.0, "grace_seconds": 5.0, **options,
            }  # fmt: skip
            config = ServerConfig(**settings)
            server, port = create_server(config)
            server.start()
            stack.callback(server.stop)
            return Running(server, f"127.0.0.1:{port}", config.rest_api_port)

        yield start


def _rejects(
    ask: Callable[[Client], Any], words: str, error: type[ServingError] = InvalidArgument
) -> Callable[[Running], None]:
    def check(running: Running) -> None:
        with running.client() as client:
            assert client.predict_rows([ROW] * 3)["click"].tolist() == [3.0] * 3
            with pytest.raises(error, match=words):
                ask(client)

    return check


def _listens_on_a_socket(running: Running) -> None:
    with grpc.insecure_channel(f"unix:{running.server.config.grpc_socket_path}") as channel:
        assert send(channel, predict()).outputs


def _limits_concurrency(running: Running) -> None:
    wait = predict(inputs={"seconds": np.float32([0.5])}, signature_name="wait")

    def ask(channel: grpc.Channel) -> str:
        try:
            send(channel, wait)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"

    with grpc.insecure_channel(running.address) as channel, ThreadPoolExecutor(6) as pool:
        found = sorted(pool.map(lambda _: ask(channel), range(6)))
    assert found == ["OK", "OK", *["RESOURCE_EXHAUSTED"] * 4]


def _requires_tokens(running: Running) -> None:
    for token in ("one", "two"):
        with running.client(token=token) as client:
            assert client.predict_rows([ROW])["click"] == [3.0]
    for token in (None, "three"):
        with running.client(token=token) as client, pytest.raises(Unauthenticated, match="token"):
            client.predict_rows([ROW])
    assert _health(running) == "SERVING", "probes need no token"
    assert running.ask("/v1/models/tiny")[0] == 401
    assert running.ask("/readyz") == (200, "ready\n")


def _has_labels(running: Running) -> None:
    """Versions 5 and 6 serve at the same time."""
    assert running.server.config.model_base_path, "the file replaces it"
    for label, score in (("stable", 3.0), (None, 4.5)):
        with running.client(label=label) as client:
            assert client.predict_rows([ROW])["click"] == [score]


def _makes_batches(running: Running) -> None:
    with running.client() as client, ThreadPoolExecutor(12) as pool:

        def ask(price: float) -> float:
            return float(client.predict_rows([{**ROW, "price": price}])["click"][0])

        prices = np.arange(200) / 4
        assert list(pool.map(ask, prices.tolist())) == (2 * prices).tolist()
        sizes = [1, 2] * 20
        scores = pool.map(lambda n: client.rank(CONTEXT, CANDIDATES[:n])["click"], sizes)
        for found, count in zip(scores, sizes, strict=True):
            np.testing.assert_array_equal(found, [3.0, 14.0][:count])
    count = ':tensorflow:serving:request_count{model_name="tiny",status="OK"}'
    assert running.metric(count) == 240
    rows = running.metric(':recsys_attn:serving:batch_size_sum{model_name="tiny"}')
    assert rows > 2 * 240, "most requests share a batch"


def _compares_the_shadow(running: Running) -> None:
    body = {"signature_name": "double", "instances": [1.5]}
    status, answer = running.ask("/v1/models/tiny:predict", body)
    assert (status, json.loads(answer)) == (200, {"predictions": [3.0]})
    series = ':recsys_attn:serving:shadow_difference_count{model_name="tiny",task="doubled"'
    wait_until(lambda: running.metric(series) == 1)


def _answers_probes_while_busy(running: Running) -> None:
    wait = predict(inputs={"seconds": np.float32([1.5])}, signature_name="wait")
    body = {"signature_name": "wait", "instances": [1.5]}
    with grpc.insecure_channel(running.address) as channel, ThreadPoolExecutor(2) as pool:
        calls = [
            pool.submit(send, channel, wait),
            pool.submit(running.ask, "/v1/models/tiny:predict", body),
        ]
        time.sleep(0.5)
        with pytest.raises(grpc.RpcError) as raised:
            send(channel, predict())
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert running.ask("/v1/models/tiny:predict", body)[0] == 429
        assert _health(running) == "SERVING"
        assert running.ask(METRICS_PATH)[0] == 200
        assert not any(call.done() for call in calls)
        assert calls[1].result()[0] == 200


EFFECTS: dict[str, tuple[dict[str, Any], Callable[[Running], None]]] = {
    "max_candidates, rows": (
        {"max_candidates": 3}, _rejects(lambda client: client.predict_rows([ROW] * 4), "have 3 "),
    ),
    "max_candidates, rank": (
        {"max_candidates": 3},
        _rejects(lambda client: client.rank(CONTEXT, [{"price": 1.0}] * 4), "Received: 4"),
    ),
    "max_concurrent_requests": ({"max_concurrent_requests": 2}, _limits_concurrency),
    "grpc_max_threads": (
        {
            "grpc_max_threads": 1, "max_concurrent_requests": 2,
            "monitoring_config_file": MONITORING,
        },
        _answers_probes_while_busy,
    ),
    "grpc_socket_path": ({"grpc_socket_path": "socket"}, _listens_on_a_socket),
    "auth_token_file": (
        {"auth_token_file": "one\ntwo\n", "monitoring_config_file": MONITORING}, _requires_tokens,
    ),
    "model_config_file": ({"model_config_file": MODELS}, _has_labels),
    "batching_parameters_file": (
        {
            "enable_batching": True, "batching_parameters_file": BATCHING,
            "monitoring_config_file": MONITORING,
        },
        _makes_batches,
    ),
    "shadow": (
        {
            "model_config_file": MODELS, "shadow": "tiny:stable:1.0",
            "monitoring_config_file": MONITORING,
        },
        _compares_the_shadow,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EFFECTS)
def test_an_option_has_its_effect(
    start: Start, name: str, tmp_path: Path, base_path: Path, threefold: Path
) -> None:
    options, check = EFFECTS[name]
    options = dict(options)
    if "model_config_file" in options:
        install(threefold, base_path, 6)
        options["model_config_file"] %= base_path
    if "grpc_socket_path" in options:
        options["grpc_socket_path"] = str(tmp_path / "socket")
    check(start(**options))


def test_label_chooses_the_version_on_every_route(
    start: Start, base_path: Path, threefold: Path
) -> None:
    install(threefold, base_path, 6)
    running = start(model_config_file=MODELS % base_path, rest_api_port=free_port())
    stable = "/v1/models/tiny/labels/stable"
    row = {**ROW, "history": [""], "tags": [""]}
    document = {"context": CONTEXT, "candidates": CANDIDATES}
    examples = {"signature_name": "regress", "examples": [{"price": 1.5}]}
    for path, body, field, expected in (
        (stable, None, "model_version_status", "5"),
        (f"{stable}/metadata", None, "model_spec", "5"),
        (f"{stable}:predict", {"instances": [row]}, "predictions", 3.0),
        (f"{stable}:rank", document, "version", 5),
        (f"{stable}:regress", examples, "results", 3.0),
    ):
        status, text = running.ask(path, body)
        assert (status, str(expected) in str(json.loads(text)[field])) == (200, True), text
        status, text = running.ask(path.replace("stable", "old"), body)
        assert (status, "Unrecognized servable version label: old" in text) == (400, True)
    assert len(json.loads(running.ask("/v1/models/tiny")[1])["model_version_status"]) == 2
    assert running.ask("/v1/models/none/labels/stable")[0] == 404
    with running.client(label="stable") as client:
        assert client.metadata().version == 5


@pytest.mark.parametrize("iterations", [0, 1])
def test_a_warm_up_that_fails_fails_the_version(
    start: Start, base_path: Path, iterations: int
) -> None:
    """0 iterations are one, as in TensorFlow Serving."""
    write_warmup(base_path / "5", records=[b"no record"])
    running = start(num_request_iterations_for_warmup=iterations)
    assert not running.server.manager.models["tiny"].is_available


@needs_openssl
def test_both_ports_speak_tls_both_ways(start: Start, tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    server = make_certificate(tmp_path, authority, "localhost")
    client = make_certificate(tmp_path, authority, "caller", client=True)
    texts = {
        "server_key": server.key, "server_cert": server.certificate,
        "custom_ca": authority.certificate,
    }  # fmt: skip
    config = " ".join(f"{name}: {json.dumps(path.read_text())}" for name, path in texts.items())
    running = start(
        host="0.0.0.0", rest_api_port=free_port(), ssl_config_file=config + " client_verify: true"
    )
    address = running.address.replace("127.0.0.1", "localhost")
    tls = Tls(str(authority.certificate), certificate=str(client.certificate), key=str(client.key))
    with Client(address, model="tiny", tls=tls) as known:
        assert known.predict_rows([ROW])["click"] == [3.0]
    with (
        Client(address, model="tiny", tls=Tls(str(authority.certificate))) as unknown,
        pytest.raises(Unavailable),
    ):
        unknown.predict_rows([ROW])
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with pytest.raises(OSError, match=r"(?i)certificate|reset|eof|closed"):
        _status_over_tls(running.rest_port, context)
    context.load_cert_chain(client.certificate, client.key)
    assert _status_over_tls(running.rest_port, context) == "AVAILABLE"


def _status_over_tls(port: int, context: ssl.SSLContext) -> str:
    connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
    with contextlib.closing(connection):
        connection.request("GET", "/v1/models/tiny")
        return json.load(connection.getresponse())["model_version_status"][0]["state"]


def test_the_prediction_log_has_every_kind_of_request(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    running = start(prediction_log_dir=str(folder), prediction_log_sampling_rate=1.0)
    with running.client() as client:
        client.predict_rows([ROW], request_id="r1")
        client.rank(CONTEXT, CANDIDATES, request_id="r2")
        client.regress([{"price": 1.5}], signature_name="regress", request_id="r3")
        with pytest.raises(ServingError):
            client.explain(CONTEXT, CANDIDATES, request_id="r4")
    with grpc.insecure_channel(running.address) as channel:
        stub = scoring_pb2_grpc.ScoringServiceStub(channel)
        stub.Rank(make_rank_request("tiny", CONTEXT, CANDIDATES), metadata=[("x-request-id", "r5")])
    running.server.stop()
    (file,) = folder.glob("*.parquet")
    rows = {row["request_id"]: row for row in pq.read_table(file).to_pylist()}
    assert {name: row["method"] for name, row in rows.items()} == {
        "r1": "Predict", "r2": "Predict", "r3": "Regress", "r5": "Rank",
    }  # fmt: skip
    by_rank, by_client = (
        prediction_log_pb2.PredictionLog.FromString(rows[name]["log"]).predict_log
        for name in ("r5", "r2")
    )
    assert by_rank.request.model_spec.signature_name == "rank"
    assert by_rank.request.inputs["price"] == by_client.request.inputs["price"]
    assert set(by_rank.response.outputs) == set(by_client.response.outputs)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ssl_config_file": "what"}, "ssl_config_file"),
        ({"enable_batching": True, "batching_parameters_file": "what"}, "batching_parameters_file"),
        ({"shadow": "tiny:5:0.1"}, "`shadow` needs `monitoring_config_file`"),
        ({"grpc_channel_arguments": "x"}, "KEY=VALUE"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_option_stops_the_start(start: Start, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        start(**options)


def _health(running: Running) -> str:
    with grpc.insecure_channel(running.address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service="tiny"), timeout=10
        )
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
