"""Brings the loaded versions of one model in line with its configuration and its version source.

Wanted versions load first; unwanted ones are unloaded after, if a wanted one is available. So a
model keeps serving while a new version loads, if that fails, and if all its folders disappear at
once. To unload a model, remove it from the configuration.

An incomplete version is checked at every poll until it is complete; that counts as no attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from serving.common.errors import FailedPrecondition, NotFound, ServingError, Unavailable
from serving.config.canary import STABLE
from serving.config.models import ModelConfig
from serving.config.version_policy import Specific
from serving.models.completeness import FolderCheck
from serving.models.load_retries import LoadRetries
from serving.models.manager_options import ManagerOptions
from serving.models.model import Model
from serving.models.version_dirs import Fingerprint, why_nothing
from serving.models.versions import ModelVersions

_LOGGER = logging.getLogger(__name__)

Load = Callable[[str, int, Path], Model]


class VersionReconciler:
    """Loads and unloads the versions of one model; all calls come from one thread.

    Args:
        versions: The versions, as requests see them.
        load: Loads and warms a version.
        options: How versions are found and loaded.
    """

    def __init__(self, versions: ModelVersions, load: Load, options: ManagerOptions) -> None:
        self.versions = versions
        self.is_settled = False  # whether a wanted version is available
        self._load_model = load
        self._options = options
        self._source = options.source
        self._is_reachable = True  # the source
        self._retries = self._new_retries()
        self._folders: Mapping[int, Path] = {}
        self._checks: dict[int, FolderCheck] = {}  # at folders of versions that are not loaded
        self._incomplete: dict[int, ServingError] = {}
        self._warnings: set[str] = set()

    @property
    def is_ready(self) -> bool:
        """Whether a version is available and its source can be reached."""
        return self.versions.is_available and self._is_reachable

    @property
    def _config(self) -> ModelConfig:
        return self.versions.config

    def check_labels(self, labels: Mapping[str, int]) -> None:
        """Raises FailedPrecondition if a label may not be given to its version."""
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
        """Applies a configuration: its labels at once, the rest with the next `poll`.

        Returns:
            Whether other versions, or versions of another folder, are wanted now.
        """
        before = self._config
        self.versions.configure(config)
        self._warnings.clear()
        if config.base_path != before.base_path:
            self._retries = self._new_retries()
            self._folders, self._checks = {}, {}
        return (config.base_path, config.policy) != (before.base_path, before.policy)

    def announce(self) -> None:
        """Records the versions that the first `poll` will load, which may come after others."""
        policy, folders = self._config.policy, list[int]()
        if not self._source.is_authoritative:  # a folder is found at once
            folders = list(self._source.find(self.versions.name, self._config.base_path))
        self.versions.expect(policy.candidates(folders)[: policy.limit])

    def poll(self) -> None:
        """Finds the versions that exist now, then settles."""
        self._settle_with(self._source.find, self.versions.name, self._config.base_path)

    def retry(self) -> None:
        """Settles with the versions found before, as new ones are not looked for."""
        name, base_path = self.versions.name, self._config.base_path
        self._settle_with(self._source.find_again, name, base_path, self._folders)

    def failure(self) -> str:
        """Returns the failed version and its error, in TensorFlow Serving's words.

        A client that asked for a reload receives this, so the folder's content is only logged.
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

    def _new_retries(self) -> LoadRetries:
        options = self._options
        return self._source.load_retries(
            options.max_num_load_retries, options.load_retry_interval_seconds
        )

    def _settle_with(self, find: Callable[..., Mapping[int, Path]], *arguments: object) -> None:
        try:
            self._folders = find(*arguments)
        except NotFound:  # the answer of a source that was reached
            self._folders = {}
            self.versions.keep_only(())
            self.versions.settle({})
            raise
        except Unavailable:
            self._is_reachable = False
            self.versions.settle({})
            raise
        self._is_reachable = True
        self._settle()

    def _settle(self) -> None:
        """Loads the wanted versions, then unloads the others."""
        policy = self._config.policy
        self._checks = {n: check for n, check in self._checks.items() if n in self._folders}
        self._retries.keep_only(self._folders)
        self._incomplete = {}
        chosen: set[int] = set()
        for number in self._in_order(policy.candidates(list(self._folders))):
            if len(chosen) == policy.limit:
                break
            if self._serves(number) or self._load(number, self._folders[number]):
                chosen.add(number)
        self.is_settled = bool(chosen)
        if chosen or self._source.is_authoritative:
            self.versions.keep_only(chosen)
        self.versions.settle(self._incomplete)
        self._warn_of_missing(chosen)

    def _in_order(self, numbers: Sequence[int]) -> Sequence[int]:
        """Returns the stable version first, so that at a start no canary answers all requests."""
        stable = self.versions.labels.get(STABLE)
        if self._config.policy.limit is not None or stable is None or stable not in numbers:
            return numbers
        return [stable, *(number for number in numbers if number != stable)]

    def _serves(self, number: int) -> bool:
        path = self.versions.available(number)
        return path is not None and path.parent == self._config.base_path

    def _load(self, number: int, path: Path) -> bool:
        """Loads and warms a version, unless it is incomplete or its next attempt is later."""
        before = self._checks.get(number)
        check = self._checks[number] = self._source.check(path, before)
        if check.gap is not None:
            self._report_incomplete(number, path, check, before)
            return False
        if not self._retries.may_try(number, check.folder):
            return False
        name = self.versions.name
        if not self._retries.waits_for_state(number):
            _LOGGER.info("Loading version %d of model %s from %s", number, name, path)
        version = self.versions.begin(number, path)
        try:
            model = self._load_model(name, number, path)
        except Exception as error:  # any error is this version's own failure
            self.versions.fail(version, self._report_failure(number, check.folder, error))
            return False
        self._retries.forget(number)
        self._checks.pop(number, None)
        self.versions.serve(version, model)
        _LOGGER.info("Version %d of model %s is available", number, name)
        return True

    def _report_incomplete(
        self, number: int, path: Path, check: FolderCheck, before: FolderCheck | None
    ) -> None:
        """Logs once for each kind of gap; its details change while files are copied."""
        name = self.versions.name
        message = f"Version {number} of model {name} is incomplete: {check.gap}. Folder: {path}"
        self._incomplete[number] = Unavailable(message)
        if before is None or before.fault != check.fault:
            _LOGGER.warning("%s (checked again until it is complete)", message)

    def _report_failure(self, number: int, folder: Fingerprint, error: Exception) -> ServingError:
        before = self._retries.errors.get(number)
        reported = self._retries.failed(number, folder, error)
        if self._retries.waits_for_state(number) and str(before) == str(reported):
            return reported  # it is looked for every few seconds, and logged once
        _LOGGER.error(
            "Version %d of model %s failed to load: %s (next attempt: %s)",
            number,
            self.versions.name,
            " ".join(str(reported).split()),
            self._retries.next_attempt(number),
        )
        return reported

    def _why_missing(self) -> str:
        policy, base_path = self._config.policy, self._config.base_path
        if isinstance(policy, Specific) and self._folders:
            return (
                f"Expected a version of {sorted(policy.versions)} in {base_path}. "
                f"Found: {sorted(self._folders)}"
            )
        return why_nothing(base_path)

    def _warn_of_missing(self, chosen: Collection[int]) -> None:
        name, policy = self.versions.name, self._config.policy
        if isinstance(policy, Specific):
            for number in sorted(policy.versions - self._folders.keys()):
                self._warn(
                    f"Version {number} of servable {name}, which was requested to be served as a "
                    "'specific' version in the servable's version policy, was not found in the "
                    "file system"
                )
        if self.versions.is_available and not chosen:
            self._warn(
                f"Refusing to unload all versions for Servable: {name}. None of those that are "
                f"wanted can be loaded from {self._config.base_path}"
            )
        for label, number in self.versions.labels.items():
            if self.versions.available(number) is None:
                self._warn(
                    f"The label {label} of model {name} points to version {number}, which is not "
                    "available"
                )

    def _warn(self, warning: str) -> None:
        """Logs each warning once, until the configuration changes."""
        if warning not in self._warnings:
            self._warnings.add(warning)
            _LOGGER.warning("%s", warning)
