"""The versions of one model: where each stands, what its labels mean, and who still uses which.

    START -> LOADING -> AVAILABLE -> UNLOADING -> END
                 \\-> END, with the error

A version whose folder is not whole is in START, with the error that says what is missing.

A version that is on its way out gives no more leases, and is freed when its last one ends.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from serving.common.errors import NotFound, ServingError, servable_not_found, unrecognized_label
from serving.common.status import State, VersionStatus
from serving.config.models import ModelConfig
from serving.models.model import Model
from serving.models.version_dirs import why_nothing


@dataclass(eq=False)
class Version:
    """One version, from its first load on; what it holds is for `ModelVersions` alone."""

    number: int
    path: Path
    state: State = State.LOADING
    model: Model | None = None
    error: ServingError | None = None
    running: int = 0  # requests that use the model


class ModelVersions:
    """The versions of one model.

    What changes them (`configure`, `begin`, `fail`, `serve`, `keep_only`, `wait_for`) is for one
    thread; the rest is for all.

    Args:
        config: What is served, and from where.
        leave: Has something done by the thread that changes versions, some time.
    """

    def __init__(self, config: ModelConfig, leave: Callable[[Callable[[], object]], None]) -> None:
        self.name = config.name
        self._leave = leave
        # Guards `_config`, `_versions`, `_current` and every field of a `Version`. It is held
        # for look-ups only, never while a model loads, computes or is freed.
        self._lock = threading.Lock()
        self._config = config
        self._versions: dict[int, Version] = {}
        self._current: int | None = None  # the newest that is available
        self._waited_for: Mapping[int, ServingError] = {}  # replaced as a whole

    @property
    def config(self) -> ModelConfig:
        return self._config

    @property
    def labels(self) -> Mapping[str, int]:
        """Versions by the names that they have besides their numbers."""
        return self._config.version_labels

    @property
    def current(self) -> int | None:
        """The newest that is available."""
        return self._current

    @property
    def is_available(self) -> bool:
        return self._current is not None

    @contextlib.contextmanager
    def lease(self, number: int | None = None, label: str | None = None) -> Iterator[Model]:
        """A loaded version, the newest where none is named, kept until the block ends.

        Raises:
            InvalidArgument: No version has this label.
            NotFound: No such version is available.
        """
        with self._lock:
            if label is not None:
                number = self._config.version_labels.get(label)
                if number is None:
                    raise unrecognized_label(label)
            version = self._available(self._current if number is None else number)
            if version is None or version.model is None:
                raise servable_not_found(self.name, number)
            model = version.model
            version.running += 1
        try:
            yield model
        finally:
            with self._lock:
                version.running -= 1
                is_unused = version.running == 0 and version.state == State.UNLOADING
            if is_unused:
                self._leave(lambda: self._free(version))

    def statuses(self) -> list[VersionStatus]:
        """Every version that was ever seen or is waited for, newest first."""
        with self._lock:
            found = {
                number: VersionStatus(number, version.state, version.error)
                for number, version in self._versions.items()
            }
        for number, error in self._waited_for.items():
            if number not in found or found[number].state == State.END:
                found[number] = VersionStatus(number, State.START, error)
        return [found[number] for number in sorted(found, reverse=True)]

    def available(self, number: int) -> Path | None:
        """The folder that a version serves from; None where it does not serve."""
        with self._lock:
            version = self._available(number)
            return None if version is None else version.path

    def require_available(self) -> None:
        """Raises, and says what was looked for and where, unless a version serves."""
        if self.is_available:
            return
        for status in self.statuses():
            if status.error is not None:
                words = str(status.error)
                if status.state != State.START:
                    words = (
                        f"Version {status.version} of model {self.name!r} in "
                        f"{self._config.base_path} failed to load: {words}"
                    )
                raise ServingError(words, status.error.code)
        raise NotFound(why_nothing(self._config.base_path))

    def configure(self, config: ModelConfig) -> None:
        """Has the labels of a new configuration mean what it says, all at once."""
        with self._lock:
            self._config = config

    def begin(self, number: int, path: Path) -> Version:
        """A version that is about to load. One of the same number serves in its stead till then."""
        version = Version(number, path)
        with self._lock:
            if self._available(number) is None:
                self._versions[number] = version
        return version

    def fail(self, version: Version, error: ServingError) -> None:
        """Says of a version that was begun why it does not load."""
        with self._lock:
            version.state, version.error = State.END, error

    def serve(self, version: Version, model: Model) -> None:
        """Makes a version that was begun available; one of the same number goes."""
        with self._lock:
            version.state, version.model = State.AVAILABLE, model
            before, self._versions[version.number] = self._versions[version.number], version
            self._current = max(version.number, self._current or 0)
        if before is not version:
            self._let_go([before])

    def keep_only(self, numbers: Collection[int]) -> None:
        """Lets go of every version but these, which are available."""
        with self._lock:
            left = [version for number, version in self._versions.items() if number not in numbers]
            self._current = max(numbers, default=None)
        self._waited_for = {}
        self._let_go(left)

    def wait_for(self, incomplete: Mapping[int, ServingError]) -> None:
        """Says what the versions lack that load once their folders are whole, and no others."""
        self._waited_for = dict(incomplete)

    def _available(self, number: int | None) -> Version | None:
        version = None if number is None else self._versions.get(number)
        return version if version is not None and version.state == State.AVAILABLE else None

    def _let_go(self, versions: Collection[Version]) -> None:
        with self._lock:
            leaving = [version for version in versions if version.state == State.AVAILABLE]
            for version in leaving:
                version.state = State.UNLOADING
        for version in leaving:
            self._free(version)

    def _free(self, version: Version) -> None:
        """Frees a version that is on its way out, unless it is in use or free already."""
        with self._lock:
            if version.state != State.UNLOADING or version.running or version.model is None:
                return
            model, version.model = version.model, None
        try:
            model.close()
        finally:
            with self._lock:
                version.state = State.END
