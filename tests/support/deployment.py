"""The files of Compose and Kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

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
