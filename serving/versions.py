"""The versions of one model: which are on disk, which one serves, and who still uses which.

    START -> LOADING -> AVAILABLE -> UNLOADING -> END
                 \\-> END, with the error

The newest version that loads is served. A new one is loaded and warmed before the old one
goes, and the old one stays until its last running request has finished.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from serving.errors import (
    Internal,
    NotFound,
    ServingError,
    from_code,
    servable_not_found,
)
from serving.model import Model, load_model
from serving.runtimes.saved_model import SAVED_MODEL_FILE
from serving.status import State, VersionStatus
from serving.warmup import warm_up

_LOGGER = logging.getLogger(__name__)
_MAX_VERSION = 2**63 - 1
# What a folder held when it failed to load: paths, sizes and times.
Fingerprint = tuple[tuple[str, int, int], ...]


@dataclass
class _Version:
    state: State = State.START
    model: Model | None = None
    error: ServingError | None = None
    running: int = 0  # requests that use the model
    failed_on: Fingerprint | None = None


class ModelVersions:
    """One model's folder of versions.

    Args:
        name: Name of the model.
        base_path: Folder that holds `<version>/saved_model.pb`.
    """

    def __init__(self, name: str, base_path: str | os.PathLike[str]) -> None:
        self.name = name
        self.base_path = Path(base_path)
        # Guards `_versions`, `_current` and every field of a `_Version`. It is held for
        # look-ups only, never while a model loads, computes or is freed.
        self._lock = threading.Lock()
        self._versions: dict[int, _Version] = {}
        self._current: int | None = None

    def poll(self) -> None:
        """Serves the newest version on disk that loads; frees those that nobody uses any more.

        Only one thread may poll at a time. With nothing left on disk, what serves goes on.
        """
        for number, path in self._on_disk():
            if self._is_available(number) or self._load(number, path):
                self._switch_to(number)
                break
        self._free_unused()

    @contextlib.contextmanager
    def lease(self, number: int | None = None) -> Iterator[Model]:
        """A loaded version, the current one where `number` is None, kept until the block ends.

        Raises:
            NotFound: No such version is available.
        """
        with self._lock:
            wanted = self._current if number is None else number
            version = self._versions.get(wanted) if wanted is not None else None
            if version is None or version.model is None or version.state != State.AVAILABLE:
                raise servable_not_found(self.name, number)
            model = version.model
            version.running += 1
        try:
            yield model
        finally:
            with self._lock:
                version.running -= 1

    @property
    def is_available(self) -> bool:
        with self._lock:
            return self._current is not None

    def statuses(self) -> list[VersionStatus]:
        """Every version that was ever seen, newest first."""
        with self._lock:
            return [
                VersionStatus(number, version.state, version.error)
                for number, version in sorted(self._versions.items(), reverse=True)
            ]

    def require_available(self) -> None:
        """Raises, and says what was looked for and where, unless a version serves."""
        if self.is_available:
            return
        for status in self.statuses():
            if status.error is not None:
                raise ServingError(
                    f"Version {status.version} of model {self.name!r} in {self.base_path} "
                    f"failed to load: {status.error}",
                    status.error.code,
                )
        raise NotFound(_why_nothing(self.base_path))

    def _on_disk(self) -> list[tuple[int, Path]]:
        """Complete version folders, newest first; the folder `1` comes before `001`."""
        found = sorted(
            ((number, path) for number, path in _numbered(self.base_path)),
            key=lambda item: (-item[0], len(item[1].name)),
        )
        # A folder that is still being written has no saved_model.pb yet.
        return [item for item in found if (item[1] / SAVED_MODEL_FILE).is_file()]

    def _is_available(self, number: int) -> bool:
        with self._lock:
            version = self._versions.get(number)
            return version is not None and version.state == State.AVAILABLE

    def _load(self, number: int, path: Path) -> bool:
        """Loads and warms a version; one that failed is tried again when its folder changes."""
        fingerprint = _fingerprint(path)
        with self._lock:
            version = self._versions.setdefault(number, _Version())
            if version.failed_on == fingerprint:
                return False
            version.state, version.error, version.failed_on = State.LOADING, None, None
        _LOGGER.info("Loading version %d of model %s from %s", number, self.name, path)
        try:
            model = load_model(self.name, number, path)
            try:
                warm_up(model)
            except BaseException:
                model.close()
                raise
        except Exception as error:  # whatever a folder raises is this version's own failure
            failure = _as_serving_error(error)
            _LOGGER.error(
                "Model %s: version %d is incomplete or damaged: %s; it will be tried again when "
                "its folder changes",
                self.name,
                number,
                " ".join(str(failure).split()),
            )
            with self._lock:
                version.state, version.error = State.END, failure
                version.failed_on = fingerprint
            return False
        with self._lock:
            version.state, version.model = State.AVAILABLE, model
        _LOGGER.info("Version %d of model %s is available", number, self.name)
        return True

    def _switch_to(self, number: int) -> None:
        with self._lock:
            self._current = number
            for other, version in self._versions.items():
                if other != number and version.state == State.AVAILABLE:
                    version.state = State.UNLOADING

    def _free_unused(self) -> None:
        freed = []
        with self._lock:
            for version in self._versions.values():
                if version.state == State.UNLOADING and version.running == 0:
                    version.state = State.END
                    freed.append(version.model)
                    version.model = None
        for model in filter(None, freed):
            model.close()
        if freed:
            gc.collect()  # a graph refers to itself


def _numbered(base_path: Path) -> Iterator[tuple[int, Path]]:
    try:
        children = list(base_path.iterdir())
    except OSError:
        return
    for path in children:
        if path.name.isascii() and path.name.isdigit() and int(path.name) <= _MAX_VERSION:
            yield int(path.name), path


def _fingerprint(path: Path) -> Fingerprint:
    entries = []
    for file in sorted(path.rglob("*")):
        with contextlib.suppress(OSError):  # it may go while it is looked at
            stat = file.stat()
            entries.append((str(file), stat.st_size, stat.st_mtime_ns))
    return tuple(entries)


def _as_serving_error(error: Exception) -> ServingError:
    if isinstance(error, ServingError):
        return error
    if isinstance(error, tf.errors.OpError):
        return from_code(error.error_code, error.message)
    return Internal(f"{type(error).__name__}: {error}")


def _why_nothing(base_path: Path) -> str:
    expected = (
        "Expected a folder that holds one numbered folder a version, each an exported "
        f"SavedModel, such as {base_path / '1' / SAVED_MODEL_FILE}."
    )
    if not base_path.is_dir():
        return f"The model base path {base_path} is not a folder. {expected}"
    if (base_path / SAVED_MODEL_FILE).is_file():
        return (
            f"The model base path {base_path} is itself a version: it holds {SAVED_MODEL_FILE}. "
            f"Name the folder above it, {base_path.resolve().parent}."
        )
    numbered = sorted(path.name for _, path in _numbered(base_path))
    if numbered:
        return (
            f"No version in {base_path} has a {SAVED_MODEL_FILE}. {expected} "
            f"Looked into: {', '.join(numbered)}."
        )
    found = sorted(path.name for path in base_path.iterdir())
    return (
        f"The model base path {base_path} holds no version. {expected} "
        f"Found: {', '.join(found[:10]) or 'nothing'}."
    )
