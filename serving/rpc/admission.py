"""Refusal of requests by a busy server, before their messages are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from serving.common.errors import ServingError
from serving.common.headers import LOW, PRIORITY
from serving.common.request_trace import RequestTrace
from serving.inference.admission import Admission
from serving.rpc.drain import Report, rejection

_SCORING = ("/tensorflow.serving.PredictionService/", "/recsys_attn.serving.ScoringService/")
_METADATA = "/GetModelMetadata"  # computes nothing


class AdmissionInterceptor(grpc.ServerInterceptor):
    """Refuses requests for scores that would be answered too late.

    Args:
        report: Called for each refused call.

    Attributes:
        admission: The rule; None while the server starts.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self.admission: Admission | None = None

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        admission, method = self.admission, handler_call_details.method
        if admission is None or not method.startswith(_SCORING) or method.endswith(_METADATA):
            return continuation(handler_call_details)

        def report(trace: RequestTrace, error: ServingError) -> None:
            admission.note_patience(trace.context)
            self._report(trace, error)

        is_low = (PRIORITY, LOW) in handler_call_details.invocation_metadata
        try:
            admission.require_room_at_door(is_low)
        except ServingError as error:
            return rejection(error, handler_call_details, report)
        return continuation(handler_call_details)
