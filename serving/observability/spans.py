"""OpenTelemetry's spans of a request: the extra `otel`."""

from __future__ import annotations

import logging
import os
from typing import Any

from serving.common.errors import http_status
from serving.common.request_trace import RequestTrace
from serving.common.trace_context import TraceContext

_LOGGER = logging.getLogger(__name__)
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
# Status codes that are a fault of the server, by OpenTelemetry's conventions; of HTTP, 5xx.
_FAULTS = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)


class Spans:
    """Makes a span of the server for each request, with its steps as children.

    The steps are `queue` (of the concurrency limit), `read`, `compute` with `queue` (of the batch)
    and `runtime`, and `write`. Names of attributes are those of OpenTelemetry's conventions for
    RPC and HTTP, and `recsys_attn.*`. A request that is rejected before it is read has no span.

    Args:
        provider: OpenTelemetry's tracer provider, which samples and exports.
    """

    def __init__(self, provider: Any) -> None:
        from opentelemetry import trace as api
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api = api
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = provider.get_tracer("recsys_attn.serving")

    def begin(self, trace: RequestTrace) -> None:
        """Starts the span of a request as a child of the client's."""
        parent = self._propagator.extract(dict(trace.context.trace.headers))
        trace.span = self._tracer.start_span(
            _name(trace),
            parent,
            self._api.SpanKind.SERVER,
            start_time=_nanoseconds(trace, trace.started),
        )
        headers: dict[str, str] = {}
        self._propagator.inject(headers, self._api.set_span_in_context(trace.span, parent))
        trace.outgoing = TraceContext.read(headers)

    def observe(self, trace: RequestTrace) -> None:
        """Ends the span of a request, with the attributes of its trace."""
        span = trace.span
        if span is None:  # rejected before it was read
            return
        if span.is_recording():
            span.set_attributes(_attributes(trace))
            if trace.error is not None and trace.error.code.name in _FAULTS:
                span.set_status(self._api.StatusCode.ERROR, str(trace.error))
            if trace.read_at:
                self._add_steps(trace)
        span.end(_nanoseconds(trace, trace.started + trace.seconds))

    def _add_steps(self, trace: RequestTrace) -> None:
        ended = trace.started + trace.seconds
        computed = trace.computed_at or ended
        admitted = trace.started + trace.admission_seconds
        if trace.admission_seconds:
            self._step(trace, trace.span, "queue", trace.started, admitted)
        self._step(trace, trace.span, "read", min(admitted, trace.read_at), trace.read_at)
        compute = self._step(trace, trace.span, "compute", trace.read_at, computed)
        waited = trace.queue_seconds - trace.admission_seconds
        if waited > 0:
            self._step(trace, compute, "queue", trace.read_at, trace.read_at + waited)
        if trace.runtime_seconds:
            started = max(trace.read_at, computed - trace.runtime_seconds)
            self._step(trace, compute, "runtime", started, computed)
        if trace.computed_at:
            self._step(trace, trace.span, "write", computed, ended)

    def _step(self, trace: RequestTrace, parent: Any, name: str, start: float, end: float) -> Any:
        """Adds a child; times are of `time.perf_counter`."""
        context = self._api.set_span_in_context(parent)
        span = self._tracer.start_span(name, context, start_time=_nanoseconds(trace, start))
        span.end(_nanoseconds(trace, end))
        return span


def spans_from_environment() -> tuple[Spans, Any] | None:
    """Returns spans that OTLP exports and their provider, as the variables `OTEL_*` say.

    Returns:
        None if they name no endpoint, or the extra `otel` is not installed.
    """
    if not any(map(os.environ.get, _ENDPOINTS)):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        _LOGGER.warning("No spans are exported: install the extra `otel` (%s)", error)
        return None
    os.environ.setdefault("OTEL_SERVICE_NAME", "recsys-attn")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Spans(provider), provider


def _name(trace: RequestTrace) -> str:
    context = trace.context
    return f"{context.method} {_route(trace)}" if context.entrypoint == "REST" else context.method


def _route(trace: RequestTrace) -> str:
    return f"/v1/models/{{model}}:{trace.context.api.lower()}"


def _attributes(trace: RequestTrace) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "recsys_attn.model.name": trace.model,
        "recsys_attn.request.id": trace.context.request_id,
        "recsys_attn.candidates": trace.candidates,
    }
    if trace.version is not None:
        attributes["recsys_attn.model.version"] = trace.version
    if trace.context.entrypoint == "REST":
        return attributes | {
            "http.request.method": trace.context.method, "http.route": _route(trace),
            "http.response.status_code": http_status(trace.error),
        }  # fmt: skip
    service, _, method = trace.context.method.rpartition("/")
    return attributes | {
        "rpc.system": "grpc", "rpc.service": service, "rpc.method": method,
        "rpc.grpc.status_code": 0 if trace.error is None else trace.error.code.value[0],
    }  # fmt: skip


def _nanoseconds(trace: RequestTrace, moment: float) -> int:
    """Returns the time since 1970 of a moment of `time.perf_counter`."""
    return round(1e9 * trace.at) + round(1e9 * (moment - trace.started))
