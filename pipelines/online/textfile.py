"""The newest online numbers in Prometheus' text format, for the textfile collector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from pipelines.common.artifacts import atomic_file
from pipelines.metrics import METRICS

_PREFIX = ":recsys_attn:online:"
_OF_VERSION = ("model_name", "version", "label")


class _Number(NamedTuple):
    """A number with its metric and the labels of its own."""

    metric: str
    meaning: str
    labels: Mapping[str, str]
    value: float | None


def write_textfile(result: Mapping[str, Any], target: Path) -> None:
    """Writes the numbers of the newest period, by version and label of the version.

    The file is replaced at once, so that a scrape never reads a half.

    Args:
        result: What `measure_online` returns.
        target: The file, such as `/var/lib/node_exporter/recsys_attn.prom`.
    """
    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}
    newest = max(part["begin"] for version in result["versions"] for part in version["periods"])
    for version in result["versions"]:
        names = (result["model"], str(version["version"]), version["label"] or "")
        common = dict(zip(_OF_VERSION, names, strict=True))
        for part in version["periods"]:
            for number in _numbers(part) if part["begin"] == newest else ():
                if number.value is None:
                    continue
                if number.metric not in gauges:
                    labels = (*_OF_VERSION, *number.labels)
                    of = (_PREFIX + number.metric, number.meaning, labels)
                    gauges[number.metric] = Gauge(*of, registry=registry)
                gauges[number.metric].labels(**common, **number.labels).set(number.value)
    with atomic_file(target) as part_file:
        part_file.write_bytes(generate_latest(registry))


def _numbers(part: Mapping[str, Any]) -> Iterator[_Number]:
    """The numbers of a version in a period."""
    for task, metrics in part["tasks"].items():
        of = {"task": task}
        yield _Number("rows", "Labelled rows.", of, metrics["rows"])
        for metric in METRICS.where("summary"):
            name, ends = metric.name, metrics["intervals"][metric.name]
            yield _Number(name, f"{metric.title}.", of, metrics[name])
            for side, value in zip(("low", "high"), ends or (None, None), strict=True):
                text = f"{side.capitalize()} end of the 95 % interval of {name}."
                yield _Number(f"{name}_{side}", text, of, value)
    for feature, share in part["missing"].items():
        of = {"feature": feature}
        yield _Number("missing_ratio", "Share of missing values.", of, share)
    store = part["store"]
    yield _Number("degraded_ratio", "Share of degraded answers.", {}, store["degraded"])
    for quantile, name in (("0.5", "lag_median"), ("0.99", "lag_99")):
        of = {"quantile": quantile}
        yield _Number("lag_seconds", "Lag of the state behind its log.", of, store[name])
    begin = datetime.fromisoformat(part["begin"]).replace(tzinfo=UTC).timestamp()
    yield _Number("begin_seconds", "Begin of the period, in seconds since 1970.", {}, begin)
