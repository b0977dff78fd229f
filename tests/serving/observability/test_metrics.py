"""The metrics page, read back by Prometheus' own parser."""

from __future__ import annotations

from typing import Any

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from serving.common.errors import DeadlineExceeded, Internal, InvalidArgument, ResourceExhausted
from serving.common.request_trace import RequestTrace
from serving.observability.metrics import ServerMetrics
from tests.serving.traces import trace

MODEL = {"model_name": "ctr"}


def _call(**found: Any) -> RequestTrace:
    known = {"model": "ctr", "version": 5, "is_served": True, "is_admitted": True}
    return trace("Predict", **{**known, **found})


def _samples(metrics: ServerMetrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(metrics.page().decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def _value(metrics: ServerMetrics, name: str, **labels: str) -> float:
    return _samples(metrics)[name, frozenset(labels.items())]


def test_requests_are_counted_by_code() -> None:
    """By TensorFlow Serving's names; a made-up model name is no label."""
    metrics, name = ServerMetrics(), "/tensorflow/serving/request_count"
    assert metrics.counter_value(name) == 0
    for found in ({}, {}, {"error": InvalidArgument("no")}):
        metrics.observe(_call(**found))
    assert metrics.counter_value(name) == 3
    assert metrics.counter_value("/tensorflow/serving/request_latency") == 0, "no counter"
    assert metrics.counter_value("/made/up") == 0
    for i in range(5):
        metrics.observe(_call(model=f"made-up-{i}", is_served=False, error=InvalidArgument("no")))
    lines = metrics.page().decode().splitlines()
    assert "# TYPE :tensorflow:serving:request_count counter" in lines
    for model, status, count in (("ctr", "OK", 2), ("ctr", "INVALID_ARGUMENT", 1),
                                 ("", "INVALID_ARGUMENT", 5)):  # fmt: skip
        labels = f'model_name="{model}",status="{status}"'
        assert f":tensorflow:serving:request_count{{{labels}}} {count}.0" in lines
    assert b"made-up" not in metrics.page()


def test_times_are_microseconds_in_known_buckets() -> None:
    metrics = ServerMetrics()
    metrics.observe(_call(seconds=0.004, runtime_seconds=0.003, queue_seconds=0.0005))
    api = {**MODEL, "API": "Predict"}
    name = ":tensorflow:serving:request_latency"
    assert _value(metrics, f"{name}_sum", **api, entrypoint="GRPC") == 4000
    bounds = sorted(
        float(dict(labels)["le"])
        for sample, labels in _samples(metrics)
        if sample == f"{name}_bucket"
    )
    np.testing.assert_allclose(bounds[:-1], 10 * 1.8 ** np.arange(33))
    runtime = ":tensorflow:serving:runtime_latency_sum"
    assert _value(metrics, runtime, **api, runtime="tensorflow") == 3000
    queue = ":tensorflow:serving:batching_session:queuing_latency_sum"
    assert _value(metrics, queue, **MODEL) == 500


def test_failures_are_in_latency_and_queue_time() -> None:
    """But for requests that were refused: they have not waited."""
    metrics, refused = ServerMetrics(), ResourceExhausted("busy")
    refused.retry_after = 0.4
    metrics.observe(_call(seconds=0.5, queue_seconds=0.5, error=DeadlineExceeded("late")))
    for rejected in ({}, {"model": "", "version": None, "is_served": False}):
        metrics.observe(_call(**rejected, is_admitted=False, seconds=1e-5, error=refused))
    api = {**MODEL, "API": "Predict", "entrypoint": "GRPC"}
    assert _value(metrics, ":tensorflow:serving:request_latency_sum", **api) == 5e5
    queue = ":tensorflow:serving:batching_session:queuing_latency_sum"
    assert _value(metrics, queue, **MODEL) == 5e5
    assert _value(metrics, queue.replace("_sum", "_count"), **MODEL) == 1
    assert not any("latency" in name and ("model_name", "") in labels
                   for name, labels in _samples(metrics))  # fmt: skip
    assert metrics.counter_value("/tensorflow/serving/request_count") == 3


def test_latency_is_by_version_and_label() -> None:
    metrics, name = ServerMetrics(), ":recsys_attn:serving:version_latency"
    metrics.observe(_call(seconds=0.25))
    metrics.observe(_call(version=6, label="canary", seconds=0.5, error=Internal("broken")))
    stable = {**MODEL, "version": "5", "label": "", "status": "OK"}
    canary = {**MODEL, "version": "6", "label": "canary", "status": "INTERNAL"}
    assert _value(metrics, f"{name}_sum", **stable) == 2.5e5
    assert _value(metrics, f"{name}_sum", **canary) == 5e5


def test_candidates_batches_and_scores_are_counted() -> None:
    metrics = ServerMetrics()
    scores = np.linspace(0, 1, 200, dtype=np.float32)[None]
    metrics.observe(_call(candidates=200, batch_rows=350, results={"click": scores}))
    assert _value(metrics, ":tensorflow:serving:request_example_count_total", **MODEL) == 200
    assert _value(metrics, ":recsys_attn:serving:batch_size_sum", **MODEL) == 350
    of_task = {**MODEL, "version": "5", "task": "click"}
    count = _value(metrics, ":recsys_attn:serving:score_count", **of_task)
    total = _value(metrics, ":recsys_attn:serving:score_sum", **of_task)
    assert 10 <= count <= 17
    np.testing.assert_allclose(total / count, 0.5, atol=0.05)


def test_scores_are_one_number_for_each_candidate() -> None:
    metrics = ServerMetrics()
    metrics.observe(
        _call(
            rows=1,
            candidates=7,
            results={
                "click": np.full((1, 7), 0.3, np.float32),
                "attention/clicked_items": np.full((1, 7, 1), 0.9, np.float32),
                "gate/click": np.full((1, 7, 4), 0.9, np.float32),
            },
        )
    )
    classes = np.full((3, 2), 0.9, np.float32)
    metrics.observe(
        _call(candidates=3, results={"scores": classes, "classes": classes.astype(object)})
    )
    metrics.observe(_call(candidates=3, results={"outputs": classes[:, :1]}))
    counts = {
        dict(labels)["task"]: value
        for (name, labels), value in _samples(metrics).items()
        if name == ":recsys_attn:serving:score_count"
    }
    assert counts == {"click": 7, "outputs": 3}


def test_shadow_warmup_and_gauge_are_on_the_page() -> None:
    metrics = ServerMetrics()
    metrics.observe_difference("ctr", 6, "click", 0.02)
    metrics.observe_warmup("/models/ctr/6", 0.5, succeeded=True)
    metrics.gauge("dropped", "Dropped.", lambda: 7)
    shadow = ":recsys_attn:serving:shadow_difference_sum"
    assert _value(metrics, shadow, **MODEL, version="6", task="click") == 0.02
    warmup = ":tensorflow:serving:model_warmup_latency_sum"
    assert _value(metrics, warmup, model_path="/models/ctr/6", status="OK") == 500_000
    assert _value(metrics, ":recsys_attn:serving:dropped") == 7


def test_only_recently_used_versions_are_kept() -> None:
    """An hourly model has thousands of versions in the lifetime of a server."""
    metrics = ServerMetrics()
    for version in range(2, 252):
        for answered in (1, version):
            metrics.observe(
                _call(version=answered, candidates=1, results={"click": np.float32([0.5])})
            )
        metrics.observe_warmup(f"/models/ctr/{version}", 0.1, True)
    counts = {
        dict(labels)["version"]: value
        for (name, labels), value in _samples(metrics).items()
        if name == ":recsys_attn:serving:score_count"
    }
    assert len(counts) == 200
    assert counts["1"] == 250
    assert "251" in counts
    assert metrics.page().count(b"latency_count{model_path=") == 200


def test_rows_with_a_known_user_are_hits() -> None:
    metrics = ServerMetrics()
    for hits, misses in ((2, 1), (0, 0), (3, 0)):
        metrics.observe(_call(user_hits=hits, user_misses=misses))
    name = ":recsys_attn:serving:user_state_count_total"
    assert _value(metrics, name, **MODEL, result="hit") == 5
    assert _value(metrics, name, **MODEL, result="miss") == 1
