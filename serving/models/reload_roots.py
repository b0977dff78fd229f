"""Which folders a reload by RPC may have the server read."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from serving.common.errors import PermissionDenied
from serving.config.models import ModelConfig

_LOGGER = logging.getLogger(__name__)


class ReloadRoots:
    """The folders of `reload_root`, and the base paths that the operator has configured.

    Args:
        widened: The folders of `reload_root`.
    """

    def __init__(self, widened: Iterable[Path] = ()) -> None:
        self._widened = tuple(widened)
        self._configured: tuple[Path, ...] = ()  # replaced as a whole, read by all

    def follow(self, models: Sequence[ModelConfig]) -> None:
        """Takes the base paths of the options, or of the model config file, in place of others."""
        self._configured = tuple(model.base_path for model in models)

    def require(self, models: Sequence[ModelConfig]) -> None:
        """Raises where a base path is outside of all of them, with its symbolic links followed.

        Raises:
            PermissionDenied: One is. Nothing tells whether there is such a folder.
        """
        roots = [Path(os.path.realpath(root)) for root in (*self._configured, *self._widened)]
        for model in models:
            resolved = Path(os.path.realpath(model.base_path))
            if not any(resolved.is_relative_to(root) for root in roots):
                _LOGGER.warning(
                    "A reload was refused: the base_path %r of model %r is in none of %s",
                    str(model.base_path), model.name, ", ".join(map(str, roots)) or "no folder",
                )  # fmt: skip
                raise PermissionDenied(
                    f"Model {model.name}: a reload may name the configured base paths and what is "
                    "below them. Start the server with a `reload_root` that has this one too. "
                    f"Received: base_path={str(model.base_path)!r}"
                )
