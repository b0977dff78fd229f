"""Shadow traffic: another version scores a share of the requests too, in the background."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from serving.common.errors import InvalidArgument, ServingError
from serving.common.request import RequestContext
from serving.common.request_trace import RequestTrace
from serving.common.sampling import is_sampled
from serving.models.manager import ModelManager

_LOGGER = logging.getLogger(__name__)
_QUEUE_SIZE = 100  # requests; further ones are not compared


@dataclass(frozen=True)
class ShadowOptions:
    """The option `shadow`: `MODEL:VERSION:SHARE` or `MODEL:LABEL:SHARE`.

    Args:
        model: Name of the model.
        version: Number or label of the version that gets the shadow traffic.
        share: Share of the model's requests.
    """

    model: str
    version: int | str
    share: float

    @classmethod
    def parse(cls, text: str) -> ShadowOptions:
        """Parses the option.

        Raises:
            InvalidArgument: It has not three parts, or the share is out of range.
        """
        parts = text.rsplit(":", 2)
        try:
            model, version, share = parts[0], parts[1], float(parts[2])
        except (IndexError, ValueError) as error:
            raise _invalid(text) from error
        if not (model and version and 0 < share <= 1):
            raise _invalid(text)
        return cls(model, int(version) if version.isdecimal() else version, share)


class ShadowTraffic:
    """Compares a share of the answers with those of another version.

    Args:
        options: The version, and the share of the requests.
        manager: Leases the version.
        report: Called with model, version, task and the largest difference of each comparison.
    """

    def __init__(
        self,
        options: ShadowOptions,
        manager: ModelManager,
        report: Callable[[str, int, str, float], None],
    ) -> None:
        self._options = options
        self._manager = manager
        self._report = report
        self._traces: queue.Queue[RequestTrace | None] = queue.Queue(_QUEUE_SIZE)
        self._thread = threading.Thread(target=self._compare_all, name="shadow", daemon=True)
        self._thread.start()

    def observe(self, trace: RequestTrace) -> None:
        """Queues a request to be compared; drops it if the queue is full."""
        if (
            trace.error is None
            and trace.model == self._options.model
            and is_sampled(trace.context.request_id, self._options.share, "shadow")
        ):
            with contextlib.suppress(queue.Full):
                self._traces.put_nowait(trace.detached())

    def close(self) -> None:
        """Compares the requests in the queue, and ends the thread."""
        self._traces.put(None)
        self._thread.join()

    def _compare_all(self) -> None:
        logged = ""
        while (trace := self._traces.get()) is not None:
            try:
                self._compare(trace)
                logged = ""
            except ServingError as error:
                if str(error) != logged:  # usually one for all requests: no such version
                    logged = str(error)
                    _LOGGER.warning("No shadow of request %s: %s", trace.context.request_id, error)
            except Exception:
                _LOGGER.exception("No shadow of request %s", trace.context.request_id)

    def _compare(self, trace: RequestTrace) -> None:
        context = RequestContext(trace.context.api, "SHADOW", trace.context.request_id)
        with self._lease() as model:
            if model.version == trace.version:
                return
            for request, results in trace.computed:
                again = model.compute(request, RequestTrace(context))
                for task, difference in differences(results, again).items():
                    self._report(trace.model, model.version, task, difference)

    def _lease(self) -> Any:
        model, version = self._options.model, self._options.version
        if isinstance(version, int):
            return self._manager.lease(model, version)
        return self._manager.lease(model, label=version)


def differences(
    results: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Returns the largest difference of each float output that both have in the same shape."""
    return {
        name: float(np.abs(values.astype(np.float64) - others[name]).max(initial=0))
        for name, values in results.items()
        if values.dtype.kind == "f" and name in others and others[name].shape == values.shape
    }


def _invalid(text: str) -> InvalidArgument:
    return InvalidArgument(
        "`shadow` must be MODEL:VERSION:SHARE or MODEL:LABEL:SHARE, the share above 0 and at most "
        f"1, such as ctr:canary:0.1. Received: {text!r}"
    )
