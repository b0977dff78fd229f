"""The models of a server by name, and what brings them in line with configuration and disk.

    start, timer    poll ---+
    gRPC, file      reload -+--> one thread --> update, load, switch, free
    last request    free ---+
    a version gone  look ---+
    all requests    lease ----------------------------------> the models as they are right now

Whatever changes models is done by one thread, one thing at a time, so that a reload and a poll
never meet; several models may be loaded at once, each by a helper of that thread. A request never
waits for it: the mapping of models is replaced as a whole, and each model's own lock is held for
look-ups only.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from serving.common.background import Background, Periodic
from serving.common.errors import ServingError, Unavailable, servable_not_found, unrecognized_label
from serving.common.status import VersionStatus
from serving.config.models import ModelConfig, require_unique
from serving.models.model import Model
from serving.models.reconciler import Load, ManagerOptions, VersionReconciler
from serving.models.versions import ModelVersions

_LOGGER = logging.getLogger(__name__)
_RETRY_SECONDS = 1.0
_DEFAULTS = ManagerOptions()


class ModelManager:
    """Hands out loaded models, and keeps them up to date.

    Args:
        models: The models to serve; `poll` loads them. Their labels hold as soon as the versions
            they point to are there.
        load: Loads and warms a version; called by the threads that load.
        report: Told after every change which model is ready for requests, by name.
        options: How versions are loaded.

    Raises:
        InvalidArgument: Two models have one name.
    """

    def __init__(
        self,
        models: Sequence[ModelConfig],
        load: Load,
        report: Callable[[dict[str, bool]], None],
        *,
        options: ManagerOptions = _DEFAULTS,
    ) -> None:
        require_unique(models)
        self._load = load
        self._report = report
        self._options = options
        self._background = Background("model-loading", helpers=options.num_load_threads)
        self._is_stopped = threading.Event()
        self._timer: Periodic | None = None
        # Each is replaced as a whole by the thread that loads, and read by all.
        self._kept_up = {config.name: self._upkeep(config) for config in models}
        self._models = _versions(self._kept_up)
        self._gone: Mapping[str, ModelVersions] = {}  # for their states
        self._is_configured = bool(models)

    @property
    def models(self) -> Mapping[str, ModelVersions]:
        """The models that are configured, by name."""
        return self._models

    def lease(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> contextlib.AbstractContextManager[Model]:
        """A loaded model, kept until the block ends.

        Args:
            name: Name of the model.
            version: Its version; the newest that is available where neither is given.
            label: A name of the version.

        Raises:
            NotFound: No such model, or no such version of it, is available.
            InvalidArgument: No version of it has this label.
            Unavailable: A label, and no model was ever configured.
        """
        versions = self._models.get(name)
        if versions is not None:
            return versions.lease(version, label)
        if label is None:
            raise servable_not_found(name, version)
        if not self._is_configured:
            raise Unavailable(f"Model labels does not init yet.{label}")
        raise unrecognized_label(label)

    def statuses(self, name: str) -> list[VersionStatus]:
        """Where every version that was ever seen stands, also of a model that was taken out."""
        versions = self._models.get(name) or self._gone.get(name)
        return [] if versions is None else versions.statuses()

    def poll(self) -> None:
        """Brings every model up to date with its folder."""
        self._background.run(lambda: self._settle(VersionReconciler.poll))

    def look_again(self, name: str, version: int, timeout: float | None) -> bool:
        """Whether another version than this one is the newest; looks, where none is known of.

        Raises:
            DeadlineExceeded: That took longer than `timeout` seconds.
        """
        self._background.run(lambda: self._look_again(name, version), timeout)
        versions = self._models.get(name)
        return versions is None or versions.current != version

    def reload(self, models: Sequence[ModelConfig]) -> None:
        """Makes these the models that are served, and returns once they are.

        What is new is loaded, what is absent is unloaded when its running requests have
        finished, and what has changed changes; a model that stays goes on serving throughout.
        Nothing changes where the models are not valid.

        Raises:
            InvalidArgument: Two models have one name.
            FailedPrecondition: A label points to a version that is not available.
            ServingError: No version that is wanted of a model that is new or has changed loads.
                The models are the new ones all the same, and it is tried again.
            Unavailable: The manager was stopped.
        """
        require_unique(models)
        self._background.run(lambda: self._reload(models))

    def start(self, wait_seconds: float) -> None:
        """Polls every `wait_seconds` from now on; where that is 0 or less it only retries."""
        if wait_seconds > 0:
            self._timer = Periodic("model-versions", self.poll)
            self._timer.start(wait_seconds)
        else:
            self._timer = Periodic("model-retries", self._retry)
            self._timer.start(_RETRY_SECONDS)

    def stop(self) -> None:
        """Ends polling and loading; loaded models stay."""
        self._is_stopped.set()
        self._background.stop()
        if self._timer is not None:
            self._timer.stop()

    def _retry(self) -> None:
        self._background.run(lambda: self._settle(VersionReconciler.retry))

    def _look_again(self, name: str, version: int) -> None:
        upkeep = self._kept_up.get(name)
        if upkeep is not None and upkeep.versions.current == version:  # nobody has looked since
            with contextlib.suppress(ServingError):
                self._settle(VersionReconciler.poll, [upkeep])

    def _settle(
        self,
        settle: Callable[[VersionReconciler], None],
        upkeeps: Collection[VersionReconciler] | None = None,
    ) -> None:
        def settled(upkeep: VersionReconciler) -> None:
            if not self._is_stopped.is_set():
                settle(upkeep)

        every = self._kept_up.values() if upkeeps is None else upkeeps
        failures = self._background.each([functools.partial(settled, one) for one in every])
        self._report({name: upkeep.is_ready for name, upkeep in self._kept_up.items()})
        if failures:
            raise failures[0]

    def _reload(self, models: Sequence[ModelConfig]) -> None:
        before = self._kept_up
        after = {config.name: before.get(config.name) or self._upkeep(config) for config in models}
        for config in models:
            after[config.name].check_labels(config.version_labels)
        changed = [
            after[config.name]
            for config in models
            if after[config.name].update(config) or config.name not in before
        ]
        absent = {name: upkeep for name, upkeep in before.items() if name not in after}
        gone = {**self._gone, **_versions(absent)}
        self._gone = {name: versions for name, versions in gone.items() if name not in after}
        self._kept_up, self._models = after, _versions(after)
        self._is_configured = self._is_configured or bool(after)
        for name, upkeep in absent.items():
            _LOGGER.info("Model %s is not configured any more", name)
            upkeep.versions.keep_only(())
        self._settle(VersionReconciler.poll)
        failed = [upkeep for upkeep in changed if not upkeep.is_settled]
        if failed:
            reasons = "".join(f"{{{upkeep.failure()}}}, " for upkeep in failed)
            raise ServingError(f"{len(failed)} model(s) did not become available: {{{reasons}}}")

    def _upkeep(self, config: ModelConfig) -> VersionReconciler:
        versions = ModelVersions(config, self._background.leave)
        return VersionReconciler(versions, self._load, self._options)


def _versions(kept_up: Mapping[str, VersionReconciler]) -> Mapping[str, ModelVersions]:
    return MappingProxyType({name: upkeep.versions for name, upkeep in kept_up.items()})
