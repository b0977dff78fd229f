"""The source of the versions of models: by default, numbered folders on disk."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from serving.models.completeness import FolderCheck, check_folder
from serving.models.load_retries import LoadRetries
from serving.models.version_dirs import find_versions, has_graph
from serving.runtimes.base import Runtime
from serving.runtimes.load import RuntimeOptions, load_runtime

_LOGGER = logging.getLogger(__name__)
_DEFAULTS = RuntimeOptions()


class VersionSource(Protocol):
    """Finds and opens the versions of models; several threads may use it.

    Attributes:
        is_authoritative: Whether a version that the source no longer lists is unloaded even if no
            other is left.
    """

    is_authoritative: bool

    def find(self, name: str, base_path: Path) -> Mapping[int, Path]:
        """Returns the versions of a model and their folders, newest first.

        Raises:
            NotFound: The source has no such model.
            Unavailable: The source cannot be reached.
        """

    def find_again(
        self, name: str, base_path: Path, known: Mapping[int, Path]
    ) -> Mapping[int, Path]:
        """As `find`, when new versions are not wanted: returns the `known` ones to try again."""

    def check(self, path: Path, before: FolderCheck | None) -> FolderCheck:
        """Returns whether a version is complete; `before` is the last answer for it."""

    def load_retries(self, times: int, interval_seconds: float) -> LoadRetries:
        """Returns the record of failed loads for one model, with the configured retries."""

    def open(self, name: str, version: int, path: Path) -> Runtime:
        """Opens a version.

        Raises:
            ServingError: It cannot be opened.
        """


class FolderSource:
    """Versions in folders, as TensorFlow Serving has them: `base_path/3/saved_model.pb`.

    It is not authoritative: if all folders disappear at once, a volume is probably unmounted, so
    the loaded versions keep serving.

    Args:
        runtime: How versions are computed.

    Example:
        >>> (Path(folder) / "3").mkdir()
        >>> list(FolderSource().find("ctr", Path(folder)))
        [3]
    """

    is_authoritative = False

    def __init__(self, runtime: RuntimeOptions = _DEFAULTS) -> None:
        self._runtime = runtime
        self._warnings: set[str] = set()  # each is logged once

    def find(self, name: str, base_path: Path) -> Mapping[int, Path]:
        """Returns the folder of each version; of several the first one with a graph."""
        folders = {}
        for number, paths in find_versions(base_path).items():
            complete = [path for path in paths if has_graph(path)]
            if len(complete) > 1:
                self._warn(name, number, complete)
            folders[number] = (complete or paths)[0]
        return folders

    def find_again(
        self, name: str, base_path: Path, known: Mapping[int, Path]
    ) -> Mapping[int, Path]:
        return known

    def check(self, path: Path, before: FolderCheck | None) -> FolderCheck:
        return check_folder(path, before)

    def load_retries(self, times: int, interval_seconds: float) -> LoadRetries:
        return LoadRetries(times, interval_seconds)

    def open(self, name: str, version: int, path: Path) -> Runtime:
        return load_runtime(path, self._runtime)

    def _warn(self, name: str, number: int, paths: list[Path]) -> None:
        ignored = ", ".join(path.name for path in paths[1:])
        warning = (
            f"Duplicate version directories detected. Version {number} of model {name} will be "
            f"loaded from {paths[0].name}, {ignored} will be ignored."
        )
        if warning not in self._warnings:
            self._warnings.add(warning)
            _LOGGER.warning("%s", warning)
