"""Brings the versions of one model in line with its configuration and its folder.

What is wanted loads first; then what is not wanted goes, if something that is wanted is there.
So a model that serves goes on serving while a new version loads, when that fails, and when its
folders vanish: all of them at once is more often a volume that is not mounted for a while than
a wish, and looks the same. Who wants a model gone takes it out of the configuration. A backend
that answers is believed: what it has no longer is not served.

A folder that is not whole is waited for: it is looked at again and again, and counts as no try.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from serving.common.errors import FailedPrecondition, NotFound, ServingError, Unavailable
from serving.config.models import ModelConfig
from serving.config.version_policy import Specific
from serving.models.completeness import Look, look
from serving.models.load_retries import LoadRetries
from serving.models.model import Model
from serving.models.version_dirs import find_versions, fingerprint, has_graph, why_nothing
from serving.models.versions import ModelVersions

_LOGGER = logging.getLogger(__name__)
_FIRST_RETRY_SECONDS = 1.0

Load = Callable[[str, int, Path], Model]
Find = Callable[[str, Path], Mapping[int, Path]]


@dataclass(frozen=True)
class ManagerOptions:
    """How versions are loaded; names and defaults are TensorFlow Serving's.

    Args:
        max_num_load_retries: How often a version that failed is tried again. When something
            in its folder changes it is tried at once, and as often again. One of a backend is tried
            as long as it is there, first after a second, then after twice as long each time.
        load_retry_interval_seconds: Time between two tries.
        allow_version_labels_for_unavailable_models: Whether a reload may give a version a new
            label before that version is available. A label that exists moves only to one that is.
        num_load_threads: Threads that load several models at once; 0: one loads them one by one.
        find: The versions of a model, by its name and base path, and their folders, newest first;
            None looks into the base path.
    """

    max_num_load_retries: int = 5
    load_retry_interval_seconds: float = 60.0
    allow_version_labels_for_unavailable_models: bool = False
    num_load_threads: int = 0
    find: Find | None = None


class VersionReconciler:
    """Loads and lets go of the versions of one model, for the one thread that does.

    Args:
        versions: The versions, as requests see them.
        load: Loads and warms a version.
        options: What may be labelled, and when a version that failed is tried again.
    """

    def __init__(self, versions: ModelVersions, load: Load, options: ManagerOptions) -> None:
        self.versions = versions
        self.is_settled = False  # whether something that is wanted is available
        self._load_model = load
        self._options = options
        self._is_reached = True  # the backend, where there is one
        self._retries = _retries(options)
        self._folders: dict[int, Path] = {}
        self._looks: dict[int, Look] = {}  # at folders whose versions do not serve
        self._incomplete: dict[int, ServingError] = {}
        self._told: set[str] = set()

    @property
    def is_ready(self) -> bool:
        """Whether a version is available, and what computes it too."""
        return self.versions.is_available and self._is_reached

    @property
    def _config(self) -> ModelConfig:
        return self.versions.config

    def check_labels(self, labels: Mapping[str, int]) -> None:
        """Raises where a label may not be given to its version."""
        for label, number in labels.items():
            moves = self.versions.labels.get(label, number) != number
            if self._options.allow_version_labels_for_unavailable_models and not moves:
                continue
            if self.versions.available(number) is None:
                raise FailedPrecondition(
                    f"Request to assign label to version {number} of model {self.versions.name}, "
                    "which is not currently available for inference"
                )

    def update(self, config: ModelConfig) -> bool:
        """Takes over a configuration: its labels at once, the rest with the next `poll`.

        Returns:
            Whether other versions, or versions of another folder, are wanted now.
        """
        before = self._config
        self.versions.configure(config)
        self._told.clear()
        if config.base_path != before.base_path:
            self._retries.forget_all()
            self._folders, self._looks = {}, {}
        return (config.base_path, config.policy) != (before.base_path, before.policy)

    def poll(self) -> None:
        """Looks into the folder, or asks the backend, and settles."""
        if self._options.find is None:
            self._folders = self._on_disk()
        else:
            self._folders = self._on_backend(self._options.find)
        self.settle()

    def retry(self) -> None:
        """Settles without a look at what is new; a backend is asked whether it is still there."""
        if self._options.find is not None:
            found = self._on_backend(self._options.find)
            self._folders = self._folders or found
        self.settle()

    def settle(self) -> None:
        """Loads what is wanted of the folders last seen, then lets go of what is not."""
        policy = self._config.policy
        self._looks = {n: seen for n, seen in self._looks.items() if n in self._folders}
        self._incomplete = {}
        chosen: set[int] = set()
        for number in policy.candidates(list(self._folders)):
            if len(chosen) == policy.limit:
                break
            if self._serves(number) or self._load(number, self._folders[number]):
                chosen.add(number)
        self.is_settled = bool(chosen)
        if chosen or self._options.find is not None:
            self.versions.keep_only(chosen)
        self.versions.wait_for(self._incomplete)
        self._tell_what_is_missing(chosen)

    def failure(self) -> str:
        """Which version failed and why, in TensorFlow Serving's words.

        The caller of a reload gets it, so the listing of the folder is in the log alone.
        """
        name = self.versions.name
        errors = {**self._retries.errors, **self._incomplete}
        if errors:
            number, error = max(errors.items(), key=lambda item: item[0])
            code = error.code.name
            return f"{{name: {name} version: {number}}} due to error: {code}: {error}"
        _LOGGER.error("Model %s: %s", name, self._why_missing())
        return (
            f"{{name: {name}}} due to error: NOT_FOUND: No version that is wanted is in "
            f"{self._config.base_path}; the server's log says more"
        )

    def _why_missing(self) -> str:
        policy, base_path = self._config.policy, self._config.base_path
        if isinstance(policy, Specific) and self._folders:
            return (
                f"Expected a version of {sorted(policy.versions)} in {base_path}. "
                f"Found: {sorted(self._folders)}"
            )
        return why_nothing(base_path)

    def _serves(self, number: int) -> bool:
        path = self.versions.available(number)
        return path is not None and path.parent == self._config.base_path

    def _on_disk(self) -> dict[int, Path]:
        """Folders by version, newest first; of several the first that has a graph."""
        folders = {}
        for number, paths in find_versions(self._config.base_path).items():
            complete = [path for path in paths if has_graph(path)]
            if len(complete) > 1:
                ignored = ", ".join(path.name for path in complete[1:])
                self._tell(
                    f"Duplicate version directories detected. Version {number} of model "
                    f"{self.versions.name} will be loaded from {complete[0].name}, {ignored} "
                    "will be ignored."
                )
            folders[number] = (complete or paths)[0]
        return folders

    def _on_backend(self, find: Find) -> dict[int, Path]:
        try:
            found = dict(find(self.versions.name, self._config.base_path))
        except NotFound:  # its answer: it has no such model
            self._folders = {}
            self.versions.keep_only(())
            raise
        except Unavailable:
            self._is_reached = False
            raise
        self._is_reached = True
        return found

    def _load(self, number: int, path: Path) -> bool:
        """Loads and warms a version, unless it is not whole or its next try is still to come."""
        is_whole = self._options.find is not None or self._is_whole(number, path)
        if not is_whole or not self._retries.may_try(number, path):
            return False
        name = self.versions.name
        _LOGGER.info("Loading version %d of model %s from %s", number, name, path)
        version = self.versions.begin(number, path)
        folder = fingerprint(path)  # before: what changes while it loads is a change
        try:
            model = self._load_model(name, number, path)
        except Exception as error:  # whatever a folder raises is this version's own failure
            told = self._retries.failed(number, folder, error)
            self.versions.fail(version, told)
            _LOGGER.error(
                "Model %s: version %d failed to load: %s; it will be tried again %s",
                name,
                number,
                " ".join(str(told).split()),
                self._retries.next_try(number),
            )
            return False
        self._retries.forget(number)
        self._looks.pop(number, None)
        self.versions.serve(version, model)
        _LOGGER.info("Version %d of model %s is available", number, name)
        return True

    def _is_whole(self, number: int, path: Path) -> bool:
        """Whether a folder is whole; says so where it is not, once for each kind of fault."""
        before = self._looks.get(number)
        now = self._looks[number] = look(path, before)
        if now.gap is None:
            return True
        name = self.versions.name
        words = f"Version {number} of model {name} is incomplete: {now.gap}. Folder: {path}"
        self._incomplete[number] = Unavailable(words)
        if before is None or before.gap is None or before.gap.fault != now.gap.fault:
            _LOGGER.warning("%s (it is looked at again until it is whole)", words)
        return False

    def _tell_what_is_missing(self, chosen: Collection[int]) -> None:
        name, policy = self.versions.name, self._config.policy
        if isinstance(policy, Specific):
            for number in sorted(policy.versions - self._folders.keys()):
                self._tell(
                    f"Version {number} of servable {name}, which was requested to be served as a "
                    "'specific' version in the servable's version policy, was not found in the "
                    "file system"
                )
        if self.versions.is_available and not chosen:
            self._tell(
                f"Refusing to unload all versions for Servable: {name}. None of those that are "
                f"wanted can be loaded from {self._config.base_path}"
            )
        for label, number in self.versions.labels.items():
            if self.versions.available(number) is None:
                self._tell(
                    f"The label {label} of model {name} points to version {number}, which is not "
                    "available"
                )

    def _tell(self, warning: str) -> None:
        """Warns once, until the configuration changes."""
        if warning not in self._told:
            self._told.add(warning)
            _LOGGER.warning("%s", warning)


def _retries(options: ManagerOptions) -> LoadRetries:
    if options.find is None:
        return LoadRetries(options.max_num_load_retries, options.load_retry_interval_seconds)
    return LoadRetries(math.inf, options.load_retry_interval_seconds, _FIRST_RETRY_SECONDS)
