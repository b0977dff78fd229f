"""The REST API's paths.

GET  /v1/models/M[/versions/V|/labels/L][/metadata]
POST /v1/models/M[/versions/V|/labels/L]:predict|:classify|:regress|:rank
POST /v1/models/M:push
GET  /healthz, /readyz              the process runs; every model is served
GET  /monitoring/prometheus/metrics
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    regression_pb2,
)

from serving.common import errors
from serving.common.headers import DEGRADED, REQUEST_ID, STATE, asks_low_priority
from serving.common.request import InferenceRequest, RequestContext, request_id_of
from serving.common.request_trace import RequestTrace
from serving.common.signature_names import DEFAULT_SIGNATURE
from serving.common.trace_context import TraceContext
from serving.inference.plan import Api, Plan, compute, ref_to
from serving.inference.service import CLASSIFY, RANK, REGRESS, InferenceService, model_ref
from serving.models.model import Model
from serving.rest.bodies import parsed, too_large, unpacked
from serving.rest.example_bodies import classes, fill_examples, values
from serving.rest.predict_bodies import excerpt, read_inputs, write_outputs
from serving.rest.push_bodies import push_answer, pushed_rows
from serving.rest.rank_bodies import rank_answer, rank_request

_LOGGER = logging.getLogger(__name__)
_PATH = re.compile(
    r"/v1/models/(?P<model>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
    r"(?::(?P<method>predict|classify|regress|rank|push)|(?P<metadata>/metadata))?",
    re.IGNORECASE | re.ASCII,  # otherwise a Turkish dotless i matches an i
)
_GET, _POST = ("GET", "HEAD"), ("POST",)
_METHODS = [*_GET, *_POST, "PUT", "DELETE", "PATCH", "OPTIONS"]  # the last four get an error
_PUSH = "push"
_MAX_DIGITS = 19  # of an int64
_APIS = {"predict": "Predict", "classify": "Classify", "regress": "Regress", "rank": "Rank"}


@dataclass(frozen=True)
class Rest:
    """The REST API as an ASGI application.

    Args:
        service: Serves the requests.
        executor: The threads that serve them.
        timeout_seconds: Deadline of a request.
        max_bytes: Largest body, as sent and as unpacked.
        is_ready: Returns whether every model is served.
        loading: Returns the models that are still loading.
        is_draining: Returns whether new requests are rejected.
        admit: Raises if the `authorization` header has no valid token.
        admit_push: Raises if it has none that allows to push events.
        metrics: Returns the metrics page; None serves none.
        metrics_path: Path of the metrics page.
    """

    service: InferenceService
    executor: futures.Executor
    timeout_seconds: float
    max_bytes: int
    is_ready: Callable[[], bool]
    loading: Callable[[], Sequence[str]]
    is_draining: Callable[[], bool]
    admit: Callable[[str | None], None]
    admit_push: Callable[[str | None], None]
    metrics: Callable[[], bytes] | None = None
    metrics_path: str = ""

    def app(self) -> Starlette:
        """Returns the application, to be run by an ASGI server."""
        routes = [Route("/healthz", self._healthz), Route("/readyz", self._readyz)]
        if self.metrics is not None:
            routes.append(Route(self.metrics_path, self._metrics))
        routes.append(Route("/{path:path}", self._answer, methods=_METHODS))
        return Starlette(routes=routes)

    async def _healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, request: Request) -> Response:
        if self.is_ready():
            return PlainTextResponse("ready\n")
        names = "" if self.is_draining() else ", ".join(self.loading())
        return PlainTextResponse(f"not ready{names and f': loading {names}'}\n", 503)

    async def _metrics(self, request: Request) -> Response:
        if self.metrics is None:
            return PlainTextResponse("", 404)
        # Not in the executor: the page must load while all of its threads are busy.
        page = await asyncio.to_thread(self.metrics)
        return Response(page, media_type="text/plain; version=0.0.4")

    async def _answer(self, request: Request) -> Response:
        path = request.scope["path"]  # `request.url` contains the `Host`, which may be malformed
        request_id = request_id_of(request.headers.get(REQUEST_ID))
        end = time.monotonic() + self.timeout_seconds
        route = _PATH.fullmatch(path)
        api = "" if route is None else _APIS.get((route["method"] or "").lower(), "")
        disconnected = threading.Event()
        context = RequestContext(
            api,
            "REST",
            request_id,
            request.method,
            remaining=lambda: end - time.monotonic(),
            has_own_deadline=False,
            is_active=lambda: not disconnected.is_set(),
            is_low_priority=asks_low_priority(request.headers.items()),
            trace=TraceContext.read(request.headers),
        )
        trace = RequestTrace(context, model="" if route is None else route["model"])
        headers = {REQUEST_ID: request_id}
        try:
            await self._admit(request, trace, headers)
            body = await self._body(request)
            watch = asyncio.ensure_future(_watch(request, disconnected))
            loop = asyncio.get_running_loop()
            try:
                text = await loop.run_in_executor(
                    self.executor, self._text, request, route, body, trace
                )
                status = 200
                if trace.state is not None and trace.state.is_degraded:
                    headers[STATE] = DEGRADED
            finally:
                watch.cancel()
        except errors.ServingError as error:
            # The tracebacks hold the values of the body, and the trace, which holds the error.
            error.with_traceback(None).__context__ = None
            if api and trace.error is None:
                self.service.reject(trace, error)
            status = errors.http_status(error)
            if error.retry_after is not None:
                headers["retry-after"] = str(math.ceil(error.retry_after))
            text = json.dumps({"error": errors.truncated(str(error))})
        except ClientDisconnect:
            status, text = 499, ""
        except asyncio.CancelledError:  # the grace of the drain is over
            status, text = 503, json.dumps({"error": str(errors.shutting_down())})
        except Exception as error:
            _LOGGER.exception("%s %s failed", request.method, path)
            status, text = 500, json.dumps({"error": f"{type(error).__name__}: {error}"})
        return Response(text, status, headers, media_type="application/json")

    async def _admit(self, request: Request, trace: RequestTrace, headers: dict[str, str]) -> None:
        """Raises, and reports to the observers, if a request is rejected before it is read."""
        try:
            if self.is_draining():
                headers["connection"] = "close"
                raise errors.shutting_down()
            self.admit(request.headers.get("authorization"))
            if trace.context.api:  # status and metadata compute nothing
                self.service.admission.require_room(trace.context)
        except errors.ServingError as error:
            self.service.reject(trace, error)
            raise

    async def _body(self, request: Request) -> bytes:
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.max_bytes:
            raise too_large(self.max_bytes)
        body = bytearray()
        try:
            async with asyncio.timeout(self.timeout_seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > self.max_bytes:
                        raise too_large(self.max_bytes)
        except TimeoutError as error:
            raise errors.DeadlineExceeded(
                "The deadline passed before the whole body had arrived."
            ) from error
        return bytes(body)

    def _text(
        self, request: Request, route: re.Match[str] | None, body: bytes, trace: RequestTrace
    ) -> str:
        """Returns the answer as JSON."""
        method, path = request.method, request.scope["path"]
        if route is None or method not in (_POST if route["method"] else _GET):
            raise errors.InvalidArgument(f"Malformed request: {method} {path}")
        spec = _spec(route)
        if not route["method"]:
            return json.dumps(self._about(spec, bool(route["metadata"])))
        encoding = request.headers.get("content-encoding", "")
        if route["method"].lower() == _PUSH:
            self.admit_push(request.headers.get("authorization"))
            rows = pushed_rows(parsed(unpacked(body, encoding, self.max_bytes)))
            return json.dumps(push_answer(self.service.push(spec.name, rows)))

        def work(model: Model) -> tuple[Any, Callable[[Any], Any]]:
            with self.service.admission.acquire(trace):
                content = unpacked(body, encoding, self.max_bytes)
                plan, write = _plan(model, spec, content, trace)
                return compute(model, plan, trace), write

        with self.service.observed(trace):
            trace.response, write = self.service.answer(model_ref(spec), work, trace)
        return json.dumps(write(trace.response))

    def _about(self, spec: model_pb2.ModelSpec, metadata: bool) -> Any:
        if not metadata:
            status = get_model_status_pb2.GetModelStatusRequest(model_spec=spec)
            return _to_json(self.service.status(status))
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=spec, metadata_field=["signature_def"]
        )
        document = _to_json(self.service.metadata(request))
        del document["metadata"]["signature_def"]["@type"]  # TensorFlow Serving has none
        return document


def _document(body: bytes, spec: model_pb2.ModelSpec) -> dict[str, Any]:
    """Returns a body as a document; the spec receives its signature's name."""
    document: dict[str, Any] = parsed(body)
    if "signature_name" in document:
        if not isinstance(document["signature_name"], str):
            raise errors.InvalidArgument(
                f"JSON Value: {excerpt(document)} not formatted correctly. 'signature_name' key "
                "must be a string value."
            )
        spec.signature_name = document["signature_name"]
    return document


def _predict_request(
    model: Model, spec: model_pb2.ModelSpec, body: bytes
) -> tuple[InferenceRequest, bool]:
    """Returns the request of a body, and whether the body has rows (`instances`)."""
    document = _document(body, spec)
    key = spec.signature_name or DEFAULT_SIGNATURE
    signature = model.signatures.get(key)
    if signature is None:
        raise errors.InvalidArgument(f'Serving signature name: "{key}" not found in signature def')
    inputs = read_inputs(document, signature.input_specs, model.takes_missing, signature.optional)
    request = InferenceRequest(ref_to(model), key, inputs, signature.select(()))
    return request, "instances" in document


def _plan(
    model: Model, spec: model_pb2.ModelSpec, body: bytes, trace: RequestTrace
) -> tuple[Plan, Callable[[Any], Any]]:
    """Returns the plan of a body, and the function that makes a document of its answer."""
    if trace.context.api == "Predict":
        request, in_rows = _predict_request(model, spec, body)
        plan = Plan((request,), lambda results: results[0])
        return plan, lambda results: write_outputs(results, in_rows)
    api, trace.message, write = _message(trace.context.api, spec, body)
    return api.read(model, trace.message), write


def _message(
    name: str, spec: model_pb2.ModelSpec, body: bytes
) -> tuple[Api, Any, Callable[[Any], Any]]:
    """Returns the API of a body, its protobuf message, and the writer of its answer."""
    if name == RANK.name:
        return RANK, rank_request(parsed(body), spec), rank_answer
    document = _document(body, spec)
    if name == CLASSIFY.name:
        classification = classification_pb2.ClassificationRequest(model_spec=spec)
        fill_examples(document, classification.input)
        return CLASSIFY, classification, lambda response: classes(response.result)
    regression = regression_pb2.RegressionRequest(model_spec=spec)
    fill_examples(document, regression.input)
    return REGRESS, regression, lambda response: values(response.result)


def _spec(route: re.Match[str]) -> model_pb2.ModelSpec:
    """Returns the model, and the version or label, that a path names."""
    spec = model_pb2.ModelSpec(name=route["model"])
    if route["version"]:
        if len(route["version"]) > _MAX_DIGITS or int(route["version"]) >= 2**63:
            raise errors.InvalidArgument(
                f"Failed to convert version: {route['version']} to numeric."
            )
        spec.version.value = int(route["version"])
    if route["label"]:
        spec.version_label = route["label"]
    return spec


async def _watch(request: Request, disconnected: threading.Event) -> None:
    """Sets the event when the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    disconnected.set()


def _to_json(message: Any) -> Any:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
