"""Dashboard, autoscaler and Prometheus name metrics, labels and services that exist."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np

from pipelines.online.textfile import write_textfile
from serving.config.files import read_batching_parameters
from serving.observability.metrics import ServerMetrics
from tests.serving.traces import trace
from tests.support.deployment import COMPOSE, PLAIN, ROOT, read

ADAPTER = read("deploy/prometheus-adapter.yaml")["rules"]["custom"]
DASHBOARD = read("deploy/grafana/dashboards/scoring.json")
ALERTS = [rule for group in read("deploy/alerts.yml")["groups"] for rule in group["rules"]]
METRICS = PLAIN["HorizontalPodAutoscaler", "scoring"]["spec"]["metrics"]
REFUSED = 'status=~"RESOURCE_EXHAUSTED|UNAVAILABLE|DEADLINE_EXCEEDED"'


def labels_by_metric() -> dict[str, set[str]]:
    """The metrics page after one call of everything."""
    metrics = ServerMetrics()
    scores = {"click": np.ones(3, np.float32)}
    served = {"model": "ctr", "is_served": True, "is_admitted": True, "version": 5}
    metrics.observe(trace("Predict", **served, candidates=3, results=scores))
    metrics.observe_warmup("/models/ctr/5", 0.5, succeeded=True)
    metrics.observe_difference("ctr", 6, "click", 0.02)
    for name in ("requests_waiting", "requests_working", "certificate_expires_seconds"):
        metrics.gauge(name, "Of a server.", lambda: 0)
    page = metrics.page().decode() + online_page()
    samples = re.findall(r"^([\w:]+)(?:\{(.*)\})? ", page, re.MULTILINE)
    found: dict[str, set[str]] = {}
    for name, labels in samples:
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def online_page() -> str:
    """The text file of the online report."""
    numbers = dict.fromkeys(("auc", "gauc", "logloss", "calibration"), 0.5)
    intervals = {name: [0.4, 0.6] for name in numbers}
    store = {"degraded": 0.0, "lag_median": 1.0, "lag_99": 2.0}
    period = {
        "begin": "2026-11-29 07:00",
        "tasks": {"click": {"rows": 3, **numbers, "intervals": intervals}},
        "missing": {"price": 0.1},
        "store": store,
    }
    version = {"version": 5, "label": "canary", "periods": [period]}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "online.prom"
        write_textfile({"model": "ctr", "versions": [version]}, target)
        return target.read_text("utf-8")


PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
VARIABLES = {one["name"]: one.get("definition", "") for one in DASHBOARD["templating"]["list"]}


def test_queries_name_metrics_and_labels_of_the_server() -> None:
    known = labels_by_metric()
    rules = [rule["seriesQuery"] for rule in ADAPTER] + [rule["expr"] for rule in ALERTS]
    for query in [*QUERIES, *VARIABLES.values(), *rules]:
        names = set(re.findall(r":\w+(?::\w+)+|process_\w+", query))
        assert names <= set(known), query
        labels = set(re.findall(r"(\w+)(?:=~|!=|=)", query))
        labels |= {label for by in re.findall(r"by \((.*?)\)", query) for label in by.split(", ")}
        # those that Prometheus adds where it scrapes
        own = labels - {"job", "namespace", "pod"}
        assert all(any(label in known[name] for name in names) for label in own), query
        assert names or query in VARIABLES.values(), query
    for name in known:
        if name.startswith(":") and name.endswith(("_bucket", "_count")):
            assert re.sub("_(bucket|count)$", "", name) in " ".join(QUERIES), name


def test_autoscaler_waits_longer_than_a_batch(tmp_path: Path) -> None:
    pods = METRICS[0]["pods"]
    file = tmp_path / "batching.config"
    file.write_text(PLAIN["ConfigMap", "scoring"]["data"]["batching.config"], encoding="utf-8")
    batching = read_batching_parameters(str(file))
    assert int(pods["target"]["averageValue"]) > batching.batch_timeout_micros
    (container,) = PLAIN["Deployment", "scoring"]["spec"]["template"]["spec"]["containers"]
    assert batching.num_batch_threads == int(container["resources"]["requests"]["cpu"])


def test_autoscaler_and_alerts_see_refusals() -> None:
    names = [metric["pods"]["metric"]["name"] for metric in METRICS if metric["type"] == "Pods"]
    assert [rule["name"]["as"] for rule in ADAPTER] == names
    assert REFUSED in ADAPTER[1]["metricsQuery"]
    assert any(REFUSED in rule["expr"] for rule in ALERTS)
    (file,) = read("deploy/prometheus.yml")["rule_files"]
    assert f"./deploy/{file}:/etc/prometheus/{file}:ro" in COMPOSE["prometheus"]["volumes"]


def test_queries_use_variables_of_the_dashboard() -> None:
    used = set(re.findall(r"\$\{?(\w+)", " ".join([*QUERIES, *VARIABLES.values()])))
    assert used <= {*VARIABLES, "__rate_interval"}


def test_grafana_finds_its_source_and_dashboards() -> None:
    folder = "deploy/grafana/provisioning"
    (source,) = read(f"{folder}/datasources/prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "127.0.0.1:9090:9090" in COMPOSE["prometheus"]["ports"]
    assert source["jsonData"]["timeInterval"].startswith(
        read("deploy/prometheus.yml")["global"]["scrape_interval"]
    )
    mounted = [volume.split(":")[:2] for volume in COMPOSE["grafana"]["volumes"]]
    inside = {target: ROOT / source for source, target in mounted}
    (provider,) = read(f"{folder}/dashboards/scoring.yml")["providers"]
    home = Path(COMPOSE["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    assert (inside[str(home.parent)] / home.name).is_file()
    assert inside["/etc/grafana/provisioning"] == ROOT / folder
