"""Models without TensorFlow: a version is a file whose content says whether it loads.

It is whole by its manifest, which lists that file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from serving.common.errors import DataLoss, NotFound
from serving.common.status import State
from serving.models.manager import ModelManager

BROKEN = "broken"


class FakeModel:
    """A model that counts its closes, and appends them to a list of its loader."""

    def __init__(self, name: str, version: int, path: Path, closes: list[tuple[str, int]]) -> None:
        self.name, self.version, self.path = name, version, path
        self.closed = 0
        self._closes = closes

    def close(self) -> None:
        self.closed += 1
        self._closes.append((self.name, self.version))


class FakeLoader:
    """Loads fake models; waits for `gate` if it was cleared, and sets `entered` before."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, Path]] = []
        self.closed: list[tuple[str, int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    @property
    def versions(self) -> list[int]:
        return [version for _, version, _ in self.calls]

    def __call__(self, name: str, version: int, path: Path) -> FakeModel:
        self.calls.append((name, version, path))
        self.entered.set()
        self.gate.wait(10)
        if (path / "saved_model.pb").read_text() == BROKEN:
            raise DataLoss(f"{path} is broken")
        return FakeModel(name, version, path, self.closed)


class Leases:
    """Stands for a manager: hands out version 5 by default, and version 6 as `canary`."""

    def __init__(self, models: Mapping[int, Any]) -> None:
        self._models = models
        self.leased = self.most = 0

    @contextlib.contextmanager
    def lease(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> Iterator[Any]:
        wanted = 6 if label == "canary" else version or 5
        if wanted not in self._models:
            raise NotFound(f"version {wanted}")
        self.leased += 1
        self.most = max(self.most, self.leased)
        try:
            yield self._models[wanted]
        finally:
            self.leased -= 1


class Reports:
    """The last report of the manager."""

    def __init__(self) -> None:
        self.last: dict[str, bool] = {}

    def __call__(self, available: dict[str, bool]) -> None:
        self.last = available


def add(base_path: Path, *versions: int | str, content: str = "whole") -> None:
    for version in versions:
        folder = base_path / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "saved_model.pb").write_text(content)
        entry = {"bytes": len(content), "sha256": hashlib.sha256(content.encode()).hexdigest()}
        manifest = {"files": {"saved_model.pb": entry}}
        (folder / "manifest.json").write_text(json.dumps(manifest))


def remove(base_path: Path, version: int) -> None:
    shutil.rmtree(base_path / str(version))


def states(manager: ModelManager, name: str = "tiny") -> Mapping[int, State]:
    return {status.version: status.state for status in manager.statuses(name)}


def available(manager: ModelManager, name: str = "tiny") -> set[int]:
    return {v for v, state in states(manager, name).items() if state == State.AVAILABLE}


def served(manager: ModelManager, name: str = "tiny", **choice: object) -> int:
    with manager.lease(name, **choice) as model:
        return model.version
