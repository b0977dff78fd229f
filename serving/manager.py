"""The models of a server by name, and the one thread that keeps them up to date."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from types import MappingProxyType

from serving.errors import servable_not_found
from serving.model import Model
from serving.versions import ModelVersions

_LOGGER = logging.getLogger(__name__)


class ModelManager:
    """Hands out loaded models, and polls the disk for new versions of them.

    Args:
        models: The models to serve.
        report: Told after every poll which model is available, by name.
    """

    def __init__(
        self, models: Iterable[ModelVersions], report: Callable[[dict[str, bool]], None]
    ) -> None:
        self.models = MappingProxyType({versions.name: versions for versions in models})
        self._report = report
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def lease(
        self, name: str, version: int | None = None
    ) -> contextlib.AbstractContextManager[Model]:
        """A loaded model, kept until the block ends.

        Raises:
            NotFound: No such model, or no such version of it, is available.
        """
        versions = self.models.get(name)
        if versions is None:
            raise servable_not_found(name, version)
        return versions.lease(version)

    def poll(self) -> None:
        """Brings every model up to date with its folder."""
        for versions in self.models.values():
            versions.poll()
        self._report({name: versions.is_available for name, versions in self.models.items()})

    def start(self, wait_seconds: float) -> None:
        """Polls every `wait_seconds` from now on; never where that is 0."""
        if wait_seconds > 0:
            self._thread = threading.Thread(
                target=self._watch, args=(wait_seconds,), name="model-versions", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Ends the polling; loaded models stay."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, wait_seconds: float) -> None:
        while not self._stopped.wait(wait_seconds):
            try:
                self.poll()
            except Exception:  # the disk may answer better next time
                _LOGGER.exception("Polling for new versions failed")
