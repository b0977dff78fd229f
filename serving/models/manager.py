"""The models of a server by name, kept in line with the configuration and the version source.

    start           announce
    start, timer    poll ---+
    gRPC, file      reload -+--> one thread --> update, load, switch, unload
    last request    free ---+
    version gone    refresh +
    all requests    lease ----------------------------------> the models as they are now

One thread changes models, one change at a time, so that a reload and a poll never overlap; helper
threads may load several models at once. Requests never wait for it: the mapping of models is
replaced as a whole, and each model's own lock is held for look-ups only.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from serving.common.background import PeriodicThread, SerialWorker
from serving.common.errors import ServingError, Unavailable, servable_not_found, unrecognized_label
from serving.common.status import VersionStatus
from serving.config.models import ModelConfig, require_unique
from serving.models.manager_options import ManagerOptions
from serving.models.model import Model
from serving.models.reconciler import Load, VersionReconciler
from serving.models.versions import ModelVersions

_LOGGER = logging.getLogger(__name__)
_RETRY_SECONDS = 1.0
_DEFAULTS = ManagerOptions()


class ModelManager:
    """Leases loaded models to requests and keeps them up to date.

    Args:
        models: The models to serve; `poll` loads them. A label is valid as soon as its version is
            available.
        load: Loads and warms a version; called by the loading threads.
        report: Called after every change with the readiness of each model by name.
        options: How versions are found and loaded.

    Raises:
        InvalidArgument: Two models have the same name.
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
        self._background = SerialWorker("model-loading", helpers=options.num_load_threads)
        self._is_stopped = threading.Event()
        self._reporting = threading.Lock()  # held while the readiness is read and reported
        self._reported: dict[str, bool] | None = None
        self._timer: PeriodicThread | None = None
        # Replaced as a whole by the loading thread, read by all threads.
        self._reconcilers = {config.name: self._reconciler(config) for config in models}
        self._models = _versions(self._reconcilers)
        self._removed: Mapping[str, ModelVersions] = {}  # for their statuses
        self._is_configured = bool(models)

    @property
    def models(self) -> Mapping[str, ModelVersions]:
        """The configured models by name."""
        return self._models

    def lease(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> contextlib.AbstractContextManager[Model]:
        """Leases a loaded model until the block ends.

        Args:
            name: Name of the model.
            version: Its version; by default the newest available one.
            label: Label of the version, instead of its number.

        Raises:
            NotFound: The model or its version is not available.
            InvalidArgument: The model has no such label.
            Unavailable: The model is still loading, or a label was given before any model was
                configured.
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
        """Returns the status of every version seen so far, also of a removed model."""
        versions = self._models.get(name) or self._removed.get(name)
        return [] if versions is None else versions.statuses()

    def announce(self) -> None:
        """Reports the models as not ready, and their versions as those that will load.

        Call it before the first `poll`, so that requests meanwhile get the right answer.
        """
        for one in self._reconcilers.values():
            one.announce()
        self._report_all()

    def poll(self) -> None:
        """Brings every model up to date with its version source."""
        self._background.run(lambda: self._settle(VersionReconciler.poll))

    def refresh(self, name: str, version: int, timeout: float | None) -> bool:
        """Polls a model whose version has gone; returns whether it is unavailable now.

        Raises:
            DeadlineExceeded: The poll took longer than `timeout` seconds.
        """
        self._background.run(lambda: self._refresh(name, version), timeout)
        versions = self._models.get(name)
        return versions is None or versions.available(version) is None

    def reload(self, models: Sequence[ModelConfig]) -> None:
        """Replaces the served models and returns once the new ones are loaded.

        Models that stay keep serving throughout. Removed models are unloaded when their running
        requests have finished. Invalid models change nothing.

        Raises:
            InvalidArgument: Two models have the same name.
            FailedPrecondition: A label points to a version that is not available.
            ServingError: No wanted version of a new or changed model could be loaded. The new
                configuration stays, and loading is tried again.
            Unavailable: The manager was stopped.
        """
        require_unique(models)
        self._background.run(lambda: self._reload(models))

    def start(self, wait_seconds: float) -> None:
        """Polls every `wait_seconds`; if that is 0 or less, only retries failed versions."""
        if wait_seconds > 0:
            self._timer = PeriodicThread("model-versions", self.poll)
            self._timer.start(wait_seconds)
        else:
            self._timer = PeriodicThread("model-retries", self._retry)
            self._timer.start(_RETRY_SECONDS)

    def stop(self) -> None:
        """Stops polling and loading; loaded models stay available."""
        self._is_stopped.set()
        self._background.stop()
        if self._timer is not None:
            self._timer.stop()

    def _retry(self) -> None:
        self._background.run(lambda: self._settle(VersionReconciler.retry))

    def _refresh(self, name: str, version: int) -> None:
        one = self._reconcilers.get(name)
        if one is None or one.versions.available(version) is None:
            return  # it was refreshed meanwhile
        with contextlib.suppress(ServingError):
            self._settle(VersionReconciler.poll, [one])

    def _settle(
        self,
        settle: Callable[[VersionReconciler], None],
        reconcilers: Collection[VersionReconciler] | None = None,
    ) -> None:
        def settle_unless_stopped(one: VersionReconciler) -> None:
            if not self._is_stopped.is_set():
                was_ready = one.is_ready
                settle(one)
                if one.is_ready and not was_ready:  # the others may load for minutes
                    self._report_all()

        chosen = self._reconcilers.values() if reconcilers is None else reconcilers
        failures = self._background.run_all(
            [functools.partial(settle_unless_stopped, one) for one in chosen]
        )
        self._report_all()
        if failures:
            raise failures[0]

    def _report_all(self) -> None:
        with self._reporting:
            readiness = {name: one.is_ready for name, one in self._reconcilers.items()}
            if readiness != self._reported:
                self._reported = readiness
                self._report(readiness)

    def _reload(self, models: Sequence[ModelConfig]) -> None:
        before = self._reconcilers
        after = {
            config.name: before.get(config.name) or self._reconciler(config) for config in models
        }
        for config in models:
            after[config.name].check_labels(config.version_labels)
        changed = [
            after[config.name]
            for config in models
            if after[config.name].update(config) or config.name not in before
        ]
        unconfigured = {name: one for name, one in before.items() if name not in after}
        removed = {**self._removed, **_versions(unconfigured)}
        self._removed = {name: versions for name, versions in removed.items() if name not in after}
        self._reconcilers, self._models = after, _versions(after)
        self._is_configured = self._is_configured or bool(after)
        for name, one in unconfigured.items():
            _LOGGER.info("Unloading model %s, which is no longer configured", name)
            one.versions.keep_only(())
        self._settle(VersionReconciler.poll)
        failed = [one for one in changed if not one.is_settled]
        if failed:
            reasons = "".join(f"{{{one.failure()}}}, " for one in failed)
            raise ServingError(f"{len(failed)} model(s) did not become available: {{{reasons}}}")

    def _reconciler(self, config: ModelConfig) -> VersionReconciler:
        versions = ModelVersions(config, self._background.schedule)
        return VersionReconciler(versions, self._load, self._options)


def _versions(reconcilers: Mapping[str, VersionReconciler]) -> Mapping[str, ModelVersions]:
    return MappingProxyType({name: one.versions for name, one in reconcilers.items()})
