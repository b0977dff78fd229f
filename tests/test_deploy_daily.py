"""Compose and Kubernetes run the daily loop on folders that its server and its job share."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from pipelines.refresh.serving_config import FILE
from serving.config.canary import CanaryOptions
from serving.config.server_config import ServerConfig
from tests.support.deployment import (
    COMPOSE,
    PLAIN,
    ROOT,
    SCORING,
    config_of,
    manifest,
    parsed,
    patched,
    pod_of,
    read,
)

DAILY = manifest("deploy/daily.yaml")
CRON = DAILY["CronJob", "daily"]["spec"]
POD = CRON["jobTemplate"]["spec"]["template"]["spec"]
BEGIN = DAILY["Job", "daily-begin"]["spec"]["template"]["spec"]
PATCH = read("deploy/canary.yaml")
SERVER = pod_of(patched(PLAIN[SCORING], PATCH))
SHELL = COMPOSE["daily"]["command"][0]

Step = tuple[str, dict[str, Any]]


def steps_of(texts: list[list[str]]) -> list[Step]:
    """The commands of `recsys-attn` with their parameters."""
    return [(words[1], parsed(words[1:])) for words in texts if words[0] == "recsys-attn"]


def shell_steps(text: str) -> list[Step]:
    parts = re.split("&&|;", re.sub(r"while .*? do", "", text))
    return steps_of([words for part in parts if (words := shlex.split(part))])


def compose_server() -> ServerConfig:
    return config_of(COMPOSE["daily-scoring"]["command"])


KUBERNETES = steps_of(
    [
        [*container["command"], *container.get("args", [])]
        for container in (*POD["initContainers"], *POD["containers"])
    ]
)
(BEGINS,) = BEGIN["containers"]
LOOPS = [
    pytest.param("/", "ctr", shell_steps(BEGINS["args"][0]) + KUBERNETES, SERVER[2], id="pods"),
    pytest.param("/app/runs", "demo", shell_steps(SHELL), compose_server(), id="compose"),
]


@pytest.mark.parametrize(("folder", "model", "steps", "config"), LOOPS)
def test_server_and_job_share_their_folders(
    folder: str, model: str, steps: list[Step], config: ServerConfig
) -> None:
    assert [name for name, _ in steps] == ["refresh", "join", "online", "refresh"]
    begin, join, online, refresh = (options for _, options in steps)
    assert begin == refresh
    root = Path(folder)  # in which the job runs
    run = root / refresh["run"]
    assert run == root / join["run"] == root / online["run"]
    assert root / refresh["rows"] == root / join["target"] == root / online["rows"]
    assert config.model_config_file == str(run / FILE)
    assert config.model_config_file_poll_wait_seconds > 0
    assert config.prediction_log_dir == str(root / join["log"])
    assert config.prediction_log_sampling_rate == 1
    assert CanaryOptions.parse(config.canary, [model]).share < 1


@pytest.mark.parametrize("text", [BEGINS["args"][0], SHELL], ids=["kubernetes", "compose"])
def test_folders_are_made_before_the_first_step(text: str) -> None:
    made = re.search("mkdir -p (.*?) &&", text)
    assert made is not None
    names = {Path(folder).name for folder in made[1].split()}
    assert names >= {"events", "log", "rows"}
    assert made.end() < text.index("recsys-attn")


def test_job_and_server_mount_the_same_claims() -> None:
    claims = {v["name"]: v["persistentVolumeClaim"]["claimName"] for v in POD["volumes"]}
    assert BEGIN["volumes"] == POD["volumes"]
    known = {name for kind, name in {*DAILY, *manifest("deploy/prepare.yaml")}}
    assert set(claims.values()) <= known
    mounts = {m["mountPath"]: claims[m["name"]] for m in BEGINS["volumeMounts"]}
    for one in (*POD["initContainers"], *POD["containers"]):
        assert one["volumeMounts"] == BEGINS["volumeMounts"]
    pod, container, _ = SERVER
    volumes = {v["name"]: v.get("persistentVolumeClaim", {}) for v in pod["volumes"]}
    served = {
        m["mountPath"]: volumes[m["name"]].get("claimName") for m in container["volumeMounts"]
    }
    assert {path: claim for path, claim in served.items() if claim} == mounts
    writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
    assert writable == {"/tmp", "/daily"}
    assert DAILY["PersistentVolumeClaim", "daily"]["spec"]["accessModes"] == ["ReadWriteMany"]


def test_job_runs_alone_and_without_rights() -> None:
    assert CRON["concurrencyPolicy"] == "Forbid"
    assert CRON["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 24 * 3600  # nothing hangs on
    user = re.findall(r"--uid (\d+) ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    for pod in (POD, BEGIN):
        context = pod["securityContext"]
        assert [str(context["runAsUser"])] == [str(context["fsGroup"])] == user
        assert not pod["automountServiceAccountToken"]
    assert SERVER[0]["securityContext"]["fsGroup"] == POD["securityContext"]["fsGroup"]


def test_canary_patch_fits_the_server_with_tls() -> None:
    both = pod_of(patched(patched(PLAIN[SCORING], read("deploy/tls.yaml")), PATCH))[2]
    assert both.ssl_config_file
    assert both.canary == SERVER[2].canary


def test_compose_serves_once_the_job_has_begun() -> None:
    server, job = COMPOSE["daily-scoring"], COMPOSE["daily"]
    assert server["depends_on"] == {"daily": {"condition": "service_healthy"}}
    assert job["healthcheck"]["test"][-1] == compose_server().model_config_file
    assert server["volumes"][0] == job["volumes"][0] == COMPOSE["trainer"]["volumes"][0]
    assert compose_server().state == config_of(COMPOSE["scoring"]["command"]).state


def test_node_exporter_shows_the_online_numbers() -> None:
    exporter = COMPOSE["node-exporter"]
    (online,) = [options for name, options in shell_steps(SHELL) if name == "online"]
    source, mounted = exporter["volumes"][0].removesuffix(":ro").rsplit(":", 1)
    assert COMPOSE["daily"]["volumes"][0] == f"{source}:/app/runs"
    option = "--collector.textfile.directory="
    (folder,) = [word.removeprefix(option) for word in exporter["command"] if option in word]
    assert Path(mounted) / online["prometheus"].parent == Path(folder)
    assert online["prometheus"].suffix == ".prom"
    jobs = read("deploy/prometheus.yml")["scrape_configs"]
    (job,) = [job for job in jobs if job["job_name"] == "online"]
    assert job["static_configs"] == [{"targets": ["node-exporter:9100"]}]
