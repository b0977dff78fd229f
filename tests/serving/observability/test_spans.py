"""Traces: passed on without OpenTelemetry, and the spans of a request with it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from serving.client import Client
from serving.common.errors import Internal, InvalidArgument, ServingError, Unavailable
from serving.server import observers
from tests.serving import stubs
from tests.serving.commands import free_port
from tests.serving.conftest import StartServer
from tests.serving.traces import trace

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADERS = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


def _access(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    lines = [record.message for record in caplog.records if record.name == "serving.access"]
    return [json.loads(line) for line in lines]


def test_trace_id_reaches_the_log_of_the_backend(
    base_path: Path,
    start_server: StartServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By gRPC and by REST, through a proxy and with batching."""
    monkeypatch.setattr(observers, "log_to_standard_error", lambda: None)
    caplog.set_level("INFO", "serving.access")
    _, backend = start_server(base_path, access_log=True)
    port = free_port()
    _, address = start_server(
        "", backend=f"grpc://{backend}", model_name="tiny", access_log=True, rest_api_port=port,
        enable_batching=True,
    )  # fmt: skip
    with grpc.insecure_channel(address) as channel:
        stubs.send(channel, stubs.predict(), metadata=tuple(HEADERS.items()))
    body = json.dumps({"inputs": {"values": [1.0]}, "signature_name": "double"}).encode()
    url = f"http://127.0.0.1:{port}/v1/models/tiny:predict"
    urllib.request.urlopen(urllib.request.Request(url, body, HEADERS), timeout=20).close()
    assert [line["trace_id"] for line in _access(caplog)] == [TRACE] * 4


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The finished spans of the servers that a test starts."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from serving.observability.spans import Spans

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(observers, "spans_from_environment", lambda: (Spans(provider), provider))
    yield exporter
    provider.shutdown()


def _by_name(spans: Any) -> dict[str, Any]:
    return {span.name: span for span in spans}


def test_spans_of_a_request(base_path: Path, start_server: StartServer, exported: Any) -> None:
    _, address = start_server(base_path)
    with Client(address, model="tiny", timeout=20) as client:
        client.predict_rows([{"price": 1.5}], metadata=HEADERS)
        with pytest.raises(ServingError):
            client.predict({}, signature_name="none")
    *first, failed = exported.get_finished_spans()
    spans = _by_name(first)
    server = spans["tensorflow.serving.PredictionService/Predict"]
    assert (f"{server.context.trace_id:032x}", f"{server.parent.span_id:016x}") == (TRACE, SPAN)
    attributes = server.attributes
    assert (attributes["rpc.system"], attributes["rpc.grpc.status_code"]) == ("grpc", 0)
    assert attributes["recsys_attn.model.name"] == "tiny"
    assert attributes["recsys_attn.model.version"] == 5
    parents = {name: span.parent.span_id for name, span in spans.items()}
    for name in ("read", "compute", "write"):
        assert parents[name] == server.context.span_id
    assert parents["runtime"] == spans["compute"].context.span_id
    for span in first:
        assert server.start_time <= span.start_time <= span.end_time <= server.end_time
    assert spans["read"].end_time == spans["compute"].start_time
    assert spans["compute"].end_time == spans["write"].start_time
    assert failed.attributes["rpc.grpc.status_code"] == grpc.StatusCode.FAILED_PRECONDITION.value[0]
    assert failed.status.is_unset, "the client's fault"


def test_spans_of_a_client_and_a_backend_are_one_trace(
    base_path: Path, start_server: StartServer, exported: Any
) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    _, backend = start_server(base_path)
    _, address = start_server("", backend=f"grpc://{backend}", model_name="tiny")
    with (
        Client(address, model="tiny", timeout=20) as client,
        TracerProvider().get_tracer("test").start_as_current_span("mine") as mine,
    ):
        client.predict_rows([{"price": 1.5}])
    servers = [s for s in exported.get_finished_spans() if s.kind.name == "SERVER"]
    behind, front = servers  # ends first
    assert {span.context.trace_id for span in servers} == {mine.get_span_context().trace_id}
    assert front.parent.span_id == mine.get_span_context().span_id
    assert behind.parent.span_id == front.context.span_id


@pytest.mark.parametrize(
    ("error", "status", "is_fault"),
    [
        (None, 200, False), (InvalidArgument("no"), 400, False), (Internal("no"), 500, True),
        (Unavailable("no"), 503, True),
    ],
)  # fmt: skip
def test_span_has_method_and_status(
    exported: Any, error: ServingError | None, status: int, is_fault: bool
) -> None:
    """An error is a fault of the server, as OpenTelemetry's conventions say."""
    spans, _ = observers.spans_from_environment()
    methods = ("any.Service/Explain", "POST")
    for method, entrypoint in zip(methods, ("GRPC", "REST"), strict=True):
        record = trace("Explain", entrypoint, method=method, model="tiny", error=error)
        spans.begin(record)
        spans.observe(record)
    spans.observe(trace("", "REST", method="GET", error=Unavailable("it drains")))
    by_grpc, by_rest = exported.get_finished_spans()
    assert (by_grpc.name, by_rest.name) == (methods[0], "POST /v1/models/{model}:explain")
    assert by_grpc.attributes["rpc.service"] == "any.Service"
    assert by_grpc.attributes["rpc.method"] == "Explain"
    assert by_rest.attributes["http.request.method"] == "POST"
    assert by_rest.attributes["http.response.status_code"] == status
    for span in (by_grpc, by_rest):
        assert (not span.status.is_ok) == is_fault
