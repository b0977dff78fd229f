"""The versions of one model: their states, labels and leases.

    START -> LOADING -> AVAILABLE -> UNLOADING -> END
                 \\-> END, with the error

A version that waits for its load is in START, and so is one with an incomplete folder, with an
error that names what is missing.

A version in UNLOADING gives no more leases, and is closed when its last lease ends.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from serving.common.errors import (
    NotFound,
    ServingError,
    Unavailable,
    servable_not_found,
    unrecognized_label,
)
from serving.common.status import State, VersionStatus
from serving.config.models import ModelConfig
from serving.models.model import Model
from serving.models.version_dirs import why_nothing


@dataclass(eq=False)
class Version:
    """One version since its first load; only `ModelVersions` uses its fields."""

    number: int
    path: Path
    state: State = State.LOADING
    model: Model | None = None
    error: ServingError | None = None
    leases: int = 0  # requests that use the model


class ModelVersions:
    """The versions of one model.

    One thread calls the methods that change them (`configure`, `expect`, `begin`, `fail`, `serve`,
    `keep_only`, `settle`); all threads may call the others.

    Args:
        config: The model's configuration.
        schedule: Runs a function later, in the thread that changes versions.
    """

    def __init__(
        self, config: ModelConfig, schedule: Callable[[Callable[[], object]], None]
    ) -> None:
        self.name = config.name
        self._schedule = schedule
        # Guards `_config`, `_versions`, `_current` and every field of a `Version`. It is held
        # for look-ups only, never while a model loads, computes or is closed.
        self._lock = threading.Lock()
        self._config = config
        self._versions: dict[int, Version] = {}
        self._current: int | None = None  # the newest available one
        # Replaced as a whole: the versions that wait, with their errors if they are incomplete.
        self._waiting: Mapping[int, ServingError | None] = {}
        self._is_expected = False  # whether the wanted versions are yet to be tried

    @property
    def config(self) -> ModelConfig:
        """The model's configuration."""
        return self._config

    @property
    def labels(self) -> Mapping[str, int]:
        """Version numbers by label."""
        return self._config.version_labels

    @property
    def current(self) -> int | None:
        """The newest available version."""
        return self._current

    @property
    def is_available(self) -> bool:
        """Whether any version is available."""
        return self._current is not None

    @property
    def is_loading(self) -> bool:
        """Whether no version is available yet, but one may be soon."""
        with self._lock:
            return self._may_come()

    @contextlib.contextmanager
    def lease(self, number: int | None = None, label: str | None = None) -> Iterator[Model]:
        """Leases a loaded version, by default the newest, until the block ends.

        Raises:
            InvalidArgument: No version has this label.
            NotFound: The version is not available.
            Unavailable: No version is available yet, and one is loading.
        """
        with self._lock:
            if label is not None:
                number = self._config.version_labels.get(label)
                if number is None:
                    raise unrecognized_label(label)
            version = self._available(self._current if number is None else number)
            if version is None or version.model is None:
                if self._may_come():
                    raise self._still_loading()
                raise servable_not_found(self.name, number)
            model = version.model
            version.leases += 1
        try:
            yield model
        finally:
            with self._lock:
                version.leases -= 1
                is_unused = version.leases == 0 and version.state == State.UNLOADING
            if is_unused:
                self._schedule(lambda: self._close(version))

    def statuses(self) -> list[VersionStatus]:
        """Returns the status of every version seen so far, newest first."""
        with self._lock:
            statuses = {
                number: VersionStatus(number, version.state, version.error)
                for number, version in self._versions.items()
            }
        for number, error in self._waiting.items():
            if number not in statuses or statuses[number].state == State.END:
                statuses[number] = VersionStatus(number, State.START, error)
        return [statuses[number] for number in sorted(statuses, reverse=True)]

    def available(self, number: int) -> Path | None:
        """Returns the folder of an available version; None if it is not available."""
        with self._lock:
            version = self._available(number)
            return None if version is None else version.path

    def require_available(self) -> None:
        """Raises the reason if no version is available."""
        if self.is_available:
            return
        for status in self.statuses():
            if status.error is not None:
                message = str(status.error)
                if status.state != State.START:
                    message = (
                        f"Version {status.version} of model {self.name!r} in "
                        f"{self._config.base_path} failed to load: {message}"
                    )
                raise ServingError(message, status.error.code)
        raise NotFound(why_nothing(self._config.base_path))

    def configure(self, config: ModelConfig) -> None:
        """Replaces the configuration, and so all labels at once."""
        with self._lock:
            self._config = config

    def expect(self, numbers: Iterable[int]) -> None:
        """Records the versions that are going to load, as far as they are known."""
        self._waiting = dict.fromkeys(numbers)
        self._is_expected = True

    def begin(self, number: int, path: Path) -> Version:
        """Registers a version that is about to load.

        If a version with the same number is available, it keeps serving until this one is ready.
        """
        version = Version(number, path)
        with self._lock:
            if self._available(number) is None:
                self._versions[number] = version
        return version

    def fail(self, version: Version, error: ServingError) -> None:
        """Records the error of a version that failed to load."""
        with self._lock:
            version.state, version.error = State.END, error

    def serve(self, version: Version, model: Model) -> None:
        """Makes a loaded version available, and unloads an older one with the same number."""
        with self._lock:
            version.state, version.model = State.AVAILABLE, model
            before, self._versions[version.number] = self._versions[version.number], version
            self._current = max(version.number, self._current or 0)
        if before is not version:
            self._unload([before])

    def keep_only(self, numbers: Collection[int]) -> None:
        """Unloads every version except these, which are available."""
        with self._lock:
            unwanted = [
                version for number, version in self._versions.items() if number not in numbers
            ]
            self._current = max(numbers, default=None)
        self._waiting = {}
        self._unload(unwanted)

    def settle(self, incomplete: Mapping[int, ServingError]) -> None:
        """Records that the wanted versions were tried, except these, which are incomplete."""
        self._waiting = dict(incomplete)
        self._is_expected = False

    def _still_loading(self) -> ServingError:
        numbers = ", ".join(map(str, sorted({*self._waiting, *self._versions})))
        version = f" version {numbers}" if numbers else ""
        return Unavailable(
            f"Model {self.name!r} is still loading{version}. Try again, or wait until its health "
            "is SERVING."
        )

    def _may_come(self) -> bool:
        loads = any(one.state == State.LOADING for one in self._versions.values())
        return self._current is None and (loads or self._is_expected)

    def _available(self, number: int | None) -> Version | None:
        version = None if number is None else self._versions.get(number)
        return version if version is not None and version.state == State.AVAILABLE else None

    def _unload(self, versions: Collection[Version]) -> None:
        with self._lock:
            leaving = [version for version in versions if version.state == State.AVAILABLE]
            for version in leaving:
                version.state = State.UNLOADING
        for version in leaving:
            self._close(version)

    def _close(self, version: Version) -> None:
        """Closes a version that is unloading, unless it is in use or closed already."""
        with self._lock:
            if version.state != State.UNLOADING or version.leases or version.model is None:
                return
            model, version.model = version.model, None
        try:
            model.close()
        finally:
            with self._lock:
                version.state = State.END
