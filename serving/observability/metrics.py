"""Prometheus metrics: TensorFlow Serving's, under its names, and more.

As in TensorFlow Serving, times are microseconds.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from serving.common.request_trace import RequestTrace, StateOfRequest

_SERVING, _OWN = ":tensorflow:serving:", ":recsys_attn:serving:"
_MICROSECONDS = [10 * 1.8**n for n in range(33)]
_COUNTS = [2.0**n for n in range(18)]
_SHARES = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, *(i / 10 for i in range(1, 10)), 0.95, 0.99, 1.0]
_DIFFERENCES = [10.0**n for n in range(-9, 1)]
_OBSERVED_SCORES = 16  # at most, evenly spaced over the candidates of a request
_CODE = {False: "ERROR", True: "OK"}
# Requests that end so at once: their times would hide those of the others.
_REFUSALS = frozenset({"RESOURCE_EXHAUSTED", "UNAVAILABLE", "UNAUTHENTICATED", "PERMISSION_DENIED"})
_MAX_SERIES = 200  # of a histogram by version: an hourly model has 17,000 versions a year


class _BoundedHistogram:
    """A histogram by version that keeps the most recently used series."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._lock = threading.Lock()  # guards `_used`
        self._used: dict[tuple[str, ...], Histogram] = {}  # least recently used first

    def labels(self, *names: str) -> Histogram:
        """Returns the series of these labels."""
        with self._lock:
            series = self._used.pop(names, None) or self._histogram.labels(*names)
            self._used[names] = series
            if len(self._used) > _MAX_SERIES:
                oldest = next(iter(self._used))
                del self._used[oldest]
                self._histogram.remove(*oldest)
            return series


def _are_scores(output: str, values: np.ndarray, trace: RequestTrace) -> bool:
    """Returns whether an output is the scores of a task: one number for each candidate.

    Explanations (`attention/...`, `gate/...`) and the classes of Classify are not.
    """
    return "/" not in output and values.dtype.kind == "f" and 0 < values.size == trace.candidates


class ServerMetrics:
    """The metrics of a server.

    Args:
        runtime: Name of the runtime, for the label of `runtime_latency`.
    """

    def __init__(self, runtime: str = "tensorflow") -> None:
        disable_created_metrics()
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = self._counter(
            f"{_SERVING}request_count", "Requests.", ("model_name", "status")
        )
        self._latency = self._series(
            f"{_SERVING}request_latency", "Time of a request, in microseconds.",
            ("model_name", "API", "entrypoint"),
        )  # fmt: skip
        self._runtime_latency = self._series(
            f"{_SERVING}runtime_latency", "Time of the computation, in microseconds.",
            ("model_name", "API", "runtime"),
        )  # fmt: skip
        self._runtime = runtime
        self._examples = self._series(
            f"{_SERVING}request_example_counts", "Rows or candidates of a request.",
            ("model_name",), _COUNTS,
        )  # fmt: skip
        self._examples_total = self._counter(
            f"{_SERVING}request_example_count", "Rows or candidates.", ("model_name",)
        )
        self._queuing = self._series(
            f"{_SERVING}batching_session:queuing_latency", "Time in the queue, in microseconds.",
            ("model_name",),
        )  # fmt: skip
        self._by_version = self._recent(
            f"{_OWN}version_latency", "Time of a request, by version and label, in microseconds.",
            ("model_name", "version", "label", "status"),
        )  # fmt: skip
        self._add_states()
        self._warmup = self._recent(
            f"{_SERVING}model_warmup_latency", "Time of a version's warm-up, in microseconds.",
            ("model_path", "status"),
        )  # fmt: skip
        self._batches = self._series(
            f"{_OWN}batch_size", "Rows or candidates of a request's batch.",
            ("model_name",), _COUNTS,
        )  # fmt: skip
        self._scores = self._recent(
            f"{_OWN}score", f"Scores, {_OBSERVED_SCORES} of a request at most.",
            ("model_name", "version", "task"), _SHARES,
        )  # fmt: skip
        self._shadow = self._recent(
            f"{_OWN}shadow_difference",
            "Largest difference of a score from that of the shadow version.",
            ("model_name", "version", "task"), _DIFFERENCES,
        )  # fmt: skip

    def _add_states(self) -> None:
        """Adds the metrics of the states of users, of the encoder's and of the store's."""
        self._users = self._counter(
            f"{_OWN}user_state_count",
            "Rows with a user: hit, where only new events were computed, or miss.",
            ("model_name", "result"),
        )
        self._states = self._counter(
            f"{_OWN}state_count",
            "Requests that the store was asked to complete: answered, or degraded without it.",
            ("model_name", "result"),
        )
        self._state_latency = self._series(
            f"{_OWN}state_latency", "Time of the store and its values, in microseconds.",
            ("model_name",),
        )  # fmt: skip
        self._state_lag = functools.cache(
            Gauge(
                f"{_OWN}state_lag_seconds",
                "By how much the state was behind its log at the last request.",
                ("model_name",),
                registry=self._registry,
            ).labels
        )

    def observe(self, trace: RequestTrace) -> None:
        """Counts a request."""
        name = trace.model if trace.is_served else ""  # no label with a made-up name
        code = "OK" if trace.error is None else trace.error.code.name
        self._requests(name, code).inc()
        if trace.is_admitted:
            self._queuing(name).observe(1e6 * trace.queue_seconds)
        if trace.is_served:
            version = "" if trace.version is None else str(trace.version)
            by_version = self._by_version.labels(name, version, trace.label, code)
            by_version.observe(1e6 * trace.seconds)
        if code not in _REFUSALS:
            latency = self._latency(name, trace.context.api, trace.context.entrypoint)
            latency.observe(1e6 * trace.seconds)
        if trace.error is None:
            self._observe_answer(name, trace)

    def _observe_answer(self, name: str, trace: RequestTrace) -> None:
        self._runtime_latency(name, trace.context.api, self._runtime).observe(
            1e6 * trace.runtime_seconds
        )
        self._examples(name).observe(trace.candidates)
        self._examples_total(name).inc(trace.candidates)
        self._batches(name).observe(trace.batch_rows)
        for result, rows in (("hit", trace.user_hits), ("miss", trace.user_misses)):
            if rows:
                self._users(name, result).inc(rows)
        if trace.state is not None:
            self._observe_state(name, trace.state)
        for task, scores in trace.results.items():
            if _are_scores(task, scores, trace):
                of_task = self._scores.labels(name, str(trace.version), task)
                for score in scores.ravel()[:: 1 + scores.size // _OBSERVED_SCORES].tolist():
                    of_task.observe(score)

    def _observe_state(self, name: str, state: StateOfRequest) -> None:
        self._states(name, "degraded" if state.is_degraded else "answered").inc()
        self._state_latency(name).observe(1e6 * state.seconds)
        if state.lag_seconds is not None:
            self._state_lag(name).set(state.lag_seconds)

    def observe_warmup(self, path: str, seconds: float, succeeded: bool) -> None:
        """Counts the warm-up of a version."""
        self._warmup.labels(path, _CODE[succeeded]).observe(1e6 * seconds)

    def observe_difference(self, model: str, version: int, task: str, difference: float) -> None:
        """Counts a comparison with the shadow version."""
        self._shadow.labels(model, str(version), task).observe(difference)

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Adds a gauge whose value is read for every page."""
        Gauge(f"{_OWN}{name}", text, registry=self._registry).set_function(value)

    def counter_value(self, name: str) -> int:
        """Returns the value of a counter by TensorFlow Serving's name; 0 if there is none."""
        return sum(
            int(sample.value)
            for metric in self._registry.collect()
            if metric.type == "counter" and metric.name == name.replace("/", ":")
            for sample in metric.samples
        )

    def page(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        # The client adds `_total` to counters; TensorFlow Serving's name has none.
        name = f"{_SERVING}request_count"
        return generate_latest(self._registry).replace(f"{name}_total".encode(), name.encode())

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Callable[..., Counter]:
        """Returns the function from labels to their series; `labels` itself takes 2 us."""
        return functools.cache(Counter(name, text, labels, registry=self._registry).labels)

    def _series(self, *options: Any) -> Callable[..., Histogram]:
        return functools.cache(self._histogram(*options).labels)

    def _recent(self, *options: Any) -> _BoundedHistogram:
        return _BoundedHistogram(self._histogram(*options))

    def _histogram(
        self, name: str, text: str, labels: tuple[str, ...], buckets: list[float] = _MICROSECONDS
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)
