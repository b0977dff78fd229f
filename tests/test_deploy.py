"""The files for Compose and Kubernetes name commands, folders and workers that are there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.cli.commands import main
from pipelines.training import worker_index

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
CLAIM, PREPARE = yaml.safe_load_all((ROOT / "deploy/prepare.yaml").read_text(encoding="utf-8"))
TFJOB = yaml.safe_load((ROOT / "deploy/tfjob.yaml").read_text(encoding="utf-8"))
POD = TFJOB["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
JOB = PREPARE["spec"]["template"]["spec"]
WORKERS = [name for name in COMPOSE if name.startswith("worker-")]


def parsed(words: list[str]) -> dict[str, Any]:
    """What `recsys-attn` understands of a command line."""
    name, *arguments = words
    return main.commands[name].make_context(name, arguments).params


def containers() -> list[dict[str, Any]]:
    return [*JOB["initContainers"], *JOB["containers"], *POD["containers"]]


def test_each_worker_of_compose_knows_itself_and_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(WORKERS) == 2
    for index, name in enumerate(WORKERS):
        config = COMPOSE[name]["environment"]["TF_CONFIG"]
        monkeypatch.setenv("TF_CONFIG", config)
        assert worker_index() == index
        hosts = [worker.partition(":")[0] for worker in json.loads(config)["cluster"]["worker"]]
        assert hosts == WORKERS


def test_the_guide_names_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs/guides/distributed.md").read_text(encoding="utf-8")
    (config,) = re.findall("TF_CONFIG='(.*)'", guide)
    monkeypatch.setenv("TF_CONFIG", config)
    assert worker_index() == 0
    assert len(json.loads(config)["cluster"]["worker"]) == 2


def test_compose_prepares_the_run_folder_that_its_workers_train_in() -> None:
    steps = [shlex.split(part) for part in COMPOSE["prepare"]["command"][0].split("&&")]
    assert [step[:2] for step in steps] == [["recsys-attn", "ingest"], ["recsys-attn", "fit"]]
    commands = [step[1:] for step in steps] + [COMPOSE[name]["command"] for name in WORKERS]
    folders = {(parsed(c)["experiment"], parsed(c)["run_dir"]) for c in commands}
    assert len(folders) == 1
    assert {tuple(COMPOSE[name]["volumes"]) for name in ("prepare", *WORKERS)} == {
        tuple(COMPOSE["prepare"]["volumes"])
    }
    assert (ROOT / "pipelines/demo.toml").exists()  # what is mounted where nothing is named


def test_services_and_volumes_that_compose_names_are_there() -> None:
    named = {other for service in COMPOSE.values() for other in service.get("depends_on", {})}
    assert named <= set(COMPOSE)
    for name, service in COMPOSE.items():
        for other in service.get("depends_on", {}):
            profiles = set(COMPOSE[other].get("profiles", []))
            assert not profiles or profiles >= set(service.get("profiles", ["none"])), (name, other)


def test_the_tfjob_has_workers_alone_as_the_operator_wants_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (TFJOB["apiVersion"], TFJOB["kind"]) == ("kubeflow.org/v1", "TFJob")
    assert set(TFJOB["spec"]["tfReplicaSpecs"]) == {"Worker"}
    workers = TFJOB["spec"]["tfReplicaSpecs"]["Worker"]
    assert workers["restartPolicy"] == "OnFailure"
    (container,) = POD["containers"]
    assert container["name"] == "tensorflow"
    (port,) = container["ports"]
    assert port["name"] == "tfjob-port"
    name, number = TFJOB["metadata"]["name"], port["containerPort"]
    hosts = [f"{name}-worker-{i}.default.svc:{number}" for i in range(workers["replicas"])]
    for index in range(len(hosts)):  # what the operator sets
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": hosts}, "task": task, "environment": "cloud"}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        assert worker_index() == index


def test_kubernetes_runs_the_steps_in_one_folder_of_one_volume() -> None:
    commands = [container["command"] for container in containers()]
    assert [words[:2] for words in commands] == [
        ["recsys-attn", step] for step in ("ingest", "fit", "train")
    ]
    assert len({(parsed(w[1:])["experiment"], parsed(w[1:])["run_dir"]) for w in commands}) == 1
    assert POD["volumes"] == JOB["volumes"]
    names = {volume["name"] for volume in POD["volumes"]}
    for container in containers():
        assert {mount["name"] for mount in container["volumeMounts"]} == names
        assert parsed(container["command"][1:])["run_dir"].is_relative_to("/app/runs")
    assert CLAIM["spec"]["accessModes"] == ["ReadWriteMany"]
    claims = [v["persistentVolumeClaim"] for v in POD["volumes"] if "persistentVolumeClaim" in v]
    assert claims == [{"claimName": CLAIM["metadata"]["name"]}]
