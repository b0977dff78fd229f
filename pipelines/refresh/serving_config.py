"""The model config file of the server: which versions serve, under which labels."""

from __future__ import annotations

import json
from pathlib import Path

from pipelines.common.artifacts import atomic_file
from pipelines.refresh.history import History

FILE = "serving.config"  # in the run folder
STABLE, CANARY = "stable", "canary"


def write_serving_config(history: History, export: Path) -> None:
    """Writes the versions that the decisions leave, unless the file has them.

    Args:
        history: The decisions.
        export: The folder of the exported versions; its name is the model's.
    """
    path = export.parents[1] / FILE
    content = _content(history, export)
    if path.exists() and path.read_text(encoding="utf-8") == content:
        return
    with atomic_file(path) as file:
        file.write_text(content, encoding="utf-8")


def _content(history: History, export: Path) -> str:
    canary = history.canary
    named = {STABLE: history.stable, CANARY: None if canary is None else canary.version}
    labels = {label: version for label, version in named.items() if version is not None}
    versions = " ".join(f"versions: {version}" for version in labels.values())
    lines = [
        f"name: {_text(export.name)}",
        f"base_path: {_text(export.resolve())}",
        'model_platform: "tensorflow"',
        f"model_version_policy {{ specific {{ {versions} }} }}",
        *(f"version_labels {{ key: {_text(key)} value: {labels[key]} }}" for key in labels),
    ]
    of_model = "".join(f"    {line}\n" for line in lines)
    return f"model_config_list {{\n  config {{\n{of_model}  }}\n}}\n"


def _text(value: object) -> str:
    return json.dumps(str(value), ensure_ascii=False)
