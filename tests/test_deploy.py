"""Compose and Kubernetes train with commands, folders and workers that exist."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from pipelines.training import worker_index
from tests.support.deployment import COMPOSE, ROOT, manifest, parsed, read

CLAIM, PREPARE = manifest("deploy/prepare.yaml").values()
TFJOB = read("deploy/tfjob.yaml")
WORKER = TFJOB["spec"]["tfReplicaSpecs"]["Worker"]
POD = WORKER["template"]["spec"]
JOB = PREPARE["spec"]["template"]["spec"]
WORKERS = [name for name in COMPOSE if name.startswith("worker-")]


def test_each_worker_has_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs/guides/distributed.md").read_text(encoding="utf-8")
    configs = [COMPOSE[name]["environment"]["TF_CONFIG"] for name in WORKERS]
    for index, config in [*enumerate(configs), (0, *re.findall("TF_CONFIG='(.*)'", guide))]:
        monkeypatch.setenv("TF_CONFIG", config)
        assert worker_index() == index
        assert len(json.loads(config)["cluster"]["worker"]) == len(WORKERS) == 2
    for config in configs:
        hosts = json.loads(config)["cluster"]["worker"]
        assert [host.partition(":")[0] for host in hosts] == WORKERS


def test_compose_prepares_the_run_folder_of_its_workers() -> None:
    steps = [shlex.split(part) for part in COMPOSE["prepare"]["command"][0].split("&&")]
    assert [step[:2] for step in steps] == [["recsys-attn", "ingest"], ["recsys-attn", "fit"]]
    commands = [step[1:] for step in steps] + [COMPOSE[name]["command"] for name in WORKERS]
    assert len({(parsed(c)["experiment"], parsed(c)["run_dir"]) for c in commands}) == 1
    assert len({tuple(COMPOSE[name]["volumes"]) for name in ("prepare", *WORKERS)}) == 1
    assert (ROOT / "pipelines/demo.toml").exists()  # the default mount


def test_services_depend_on_services_of_their_profile() -> None:
    for name, service in COMPOSE.items():
        for other in service.get("depends_on", {}):
            profiles = set(COMPOSE[other].get("profiles", []))
            assert not profiles or profiles >= set(service.get("profiles", ["none"])), (name, other)


def test_tfjob_has_the_form_of_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (TFJOB["apiVersion"], TFJOB["kind"]) == ("kubeflow.org/v1", "TFJob")
    assert set(TFJOB["spec"]["tfReplicaSpecs"]) == {"Worker"}
    assert WORKER["restartPolicy"] == "OnFailure"
    (container,) = POD["containers"]
    assert container["name"] == "tensorflow"
    (port,) = container["ports"]
    assert port["name"] == "tfjob-port"
    name, number = TFJOB["metadata"]["name"], port["containerPort"]
    hosts = [f"{name}-worker-{i}.default.svc:{number}" for i in range(WORKER["replicas"])]
    for index in range(len(hosts)):  # as the operator sets it
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": hosts}, "task": task, "environment": "cloud"}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        assert worker_index() == index


def test_kubernetes_runs_all_steps_in_one_folder() -> None:
    containers = [*JOB["initContainers"], *JOB["containers"], *POD["containers"]]
    commands = [container["command"] for container in containers]
    assert [words[:2] for words in commands] == [
        ["recsys-attn", step] for step in ("ingest", "fit", "train")
    ]
    found = [parsed(words[1:]) for words in commands]
    assert len({(one["experiment"], one["run_dir"]) for one in found}) == 1
    assert found[0]["run_dir"].is_relative_to("/app/runs")
    assert POD["volumes"] == JOB["volumes"]
    names = {volume["name"] for volume in POD["volumes"]}
    for container in containers:
        assert {mount["name"] for mount in container["volumeMounts"]} == names
    assert CLAIM["spec"]["accessModes"] == ["ReadWriteMany"]
    claims = [v["persistentVolumeClaim"] for v in POD["volumes"] if "persistentVolumeClaim" in v]
    assert claims == [{"claimName": CLAIM["metadata"]["name"]}]
