"""Watches the model config file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from serving.common.background import PeriodicThread
from serving.common.errors import ServingError
from serving.config.models import ModelConfig, parse_model_config
from serving.config.text_protos import read_content

_LOGGER = logging.getLogger(__name__)


class ConfigWatcher:
    """Reloads the models when the model config file changes.

    If a change cannot be read or applied, the error is logged once, the loaded models keep
    serving, and every `poll` tries again. A reload by RPC holds until the file changes.

    Args:
        path: File with a `ModelServerConfig` as text.
        reload: Replaces the served models.
    """

    def __init__(
        self, path: str | os.PathLike[str], reload: Callable[[Sequence[ModelConfig]], object]
    ) -> None:
        self.path = Path(path)
        self._reload = reload
        self._applied: bytes | None = None
        self._logged: tuple[bytes, str] | None = None
        self._timer = PeriodicThread("model-config-file", self.poll)

    def read(self) -> tuple[ModelConfig, ...]:
        """Returns the models to start with; `poll` reloads after the next change.

        Raises:
            ServingError: The file is missing or not valid.
        """
        content = read_content(self.path)
        models = parse_model_config(content, str(self.path))
        self._applied = content
        return models

    def poll(self) -> None:
        """Reads the file, and reloads the models if it has changed."""
        content = b""
        try:
            content = read_content(self.path)
            if content == self._applied:
                return
            self._reload(parse_model_config(content, str(self.path)))
        except ServingError as error:
            self._log(content, error)
        else:
            _LOGGER.info("Loaded the models of %s", self.path)
            self._applied, self._logged = content, None

    def start(self, wait_seconds: float) -> None:
        """Polls every `wait_seconds`; never if that is 0 or less."""
        if wait_seconds > 0:
            self._timer.start(wait_seconds)

    def stop(self) -> None:
        """Stops polling."""
        self._timer.stop()

    def _log(self, content: bytes, error: ServingError) -> None:
        if self._logged != (content, str(error)):
            self._logged = content, str(error)
            _LOGGER.error("%s; the loaded models keep serving", error)
