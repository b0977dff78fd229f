"""The files of Compose and Kubernetes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from pipelines.cli.commands import main
from serving.cli import serve
from serving.config.server_config import ServerConfig

ROOT = Path(__file__).parents[2]
Manifest = dict[tuple[str, str], Any]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def manifest(name: str) -> Manifest:
    """The objects of a file by kind and name."""
    objects = yaml.safe_load_all((ROOT / name).read_text(encoding="utf-8"))
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


COMPOSE = read("docker-compose.yml")["services"]
PLAIN = manifest("deploy/serving.yaml")
SCORING = ("Deployment", "scoring")


def parsed(words: list[str]) -> dict[str, Any]:
    """The parameters of a `recsys-attn` command line."""
    name, *arguments = words
    return main.commands[name].make_context(name, arguments).params


def patched(document: Any, operations: list[dict[str, Any]]) -> Any:
    """The document after a JSON patch."""
    document = copy.deepcopy(document)
    for one in operations:
        *parents, last = (part.replace("~1", "/") for part in one["path"].split("/")[1:])
        at = document
        for part in parents:
            at = at[int(part) if isinstance(at, list) else part]
        key = int(last) if isinstance(at, list) and last != "-" else last
        if one["op"] == "test":
            assert at[key] == one["value"]
        elif one["op"] == "remove":
            del at[key]
        elif key == "-":
            at.append(one["value"])
        else:
            assert (key in at or isinstance(at, list)) == (one["op"] == "replace")
            at[key] = one["value"]
    return document


def config_of(words: list[str]) -> ServerConfig:
    arguments = [word for word in words if word != "serve"]
    return ServerConfig(**serve.make_context("serve", arguments).params)


def pod_of(workload: Any) -> tuple[Any, Any, ServerConfig]:
    """The pod, its container and the container's options."""
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container, config_of(container["args"])
