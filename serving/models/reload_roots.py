"""The folders that a reload by RPC may name."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from serving.common.errors import PermissionDenied
from serving.config.models import ModelConfig

_LOGGER = logging.getLogger(__name__)


class ReloadRoots:
    """The folders of `reload_root`, and the base paths in the configuration.

    Args:
        extra: The folders of `reload_root`.
    """

    def __init__(self, extra: Iterable[Path] = ()) -> None:
        self._extra = tuple(extra)
        self._configured: tuple[Path, ...] = ()  # replaced as a whole, read by all threads

    def follow(self, models: Sequence[ModelConfig]) -> None:
        """Replaces the configured base paths: those of the options or the model config file."""
        self._configured = tuple(model.base_path for model in models)

    def require(self, models: Sequence[ModelConfig]) -> None:
        """Checks the base paths of models, with symbolic links resolved.

        Raises:
            PermissionDenied: A base path is outside of all folders, whether it exists or not.
        """
        roots = [Path(os.path.realpath(root)) for root in (*self._configured, *self._extra)]
        for model in models:
            resolved = Path(os.path.realpath(model.base_path))
            if not any(resolved.is_relative_to(root) for root in roots):
                _LOGGER.warning(
                    "Rejected a reload: base_path %r of model %r is in none of %s",
                    str(model.base_path), model.name, ", ".join(map(str, roots)) or "no folder",
                )  # fmt: skip
                raise PermissionDenied(
                    f"Model {model.name}: a reload may name the configured base paths and folders "
                    "below them. To allow others, start the server with `reload_root`. "
                    f"Received: base_path={str(model.base_path)!r}"
                )
