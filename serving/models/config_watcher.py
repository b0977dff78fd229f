"""Follows the file that names the models."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from serving.common.background import Periodic
from serving.common.errors import ServingError
from serving.config.models import ModelConfig, parse_model_config
from serving.config.text_protos import read_content

_LOGGER = logging.getLogger(__name__)


class ConfigWatcher:
    """A model config file, and what is done when it changes.

    A change that cannot be read or not be made is logged once, and tried again with every
    `poll`; what serves goes on. What somebody else has changed since stays until the file does.

    Args:
        path: File that holds a `ModelServerConfig` as text.
        reload: Makes its models the ones that are served.
    """

    def __init__(
        self, path: str | os.PathLike[str], reload: Callable[[Sequence[ModelConfig]], object]
    ) -> None:
        self.path = Path(path)
        self._reload = reload
        self._applied: bytes | None = None
        self._told: tuple[bytes, str] | None = None
        self._timer = Periodic("model-config-file", self.poll)

    def read(self) -> tuple[ModelConfig, ...]:
        """The models to begin with, which `poll` takes for applied.

        Raises:
            ServingError: There is no such file, or what it holds is not valid.
        """
        content = read_content(self.path)
        models = parse_model_config(content, str(self.path))
        self._applied = content
        return models

    def poll(self) -> None:
        """Reads the file again, and reloads where it has changed."""
        content = b""
        try:
            content = read_content(self.path)
            if content == self._applied:
                return
            self._reload(parse_model_config(content, str(self.path)))
        except ServingError as error:
            self._tell(content, error)
        else:
            _LOGGER.info("The models are those of %s", self.path)
            self._applied, self._told = content, None

    def start(self, wait_seconds: float) -> None:
        """Polls every `wait_seconds` from now on; never where that is 0 or less."""
        if wait_seconds > 0:
            self._timer.start(wait_seconds)

    def stop(self) -> None:
        """Ends the polling."""
        self._timer.stop()

    def _tell(self, content: bytes, error: ServingError) -> None:
        if self._told != (content, str(error)):
            self._told = content, str(error)
            _LOGGER.error("%s; what serves goes on", error)
