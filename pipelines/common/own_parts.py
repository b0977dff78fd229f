"""Imports a user's modules, which register scores, models, sources and other parts by name."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple

from pipelines.common.artifacts import hash_files
from pipelines.common.errors import PipelineError
from serving.state.errors import DataError


class OwnParts(NamedTuple):
    """The modules of an experiment's `imports`, and the folder where they are looked for first."""

    names: tuple[str, ...] = ()
    folder: str = ""

    def load(self) -> None:
        """Imports the modules; a module that is imported already stays as it is.

        Raises:
            PipelineError: A module is not found, another one has its name, or it fails.
        """
        for name in self.names:
            self._load(name)

    def hashes(self) -> dict[str, str]:
        """The hash of each module's files."""
        return {name: hash_files(list(_files(self._spec(name)))) for name in self.names}

    def _load(self, name: str) -> None:
        spec = self._spec(name)
        beside = self._beside(name)
        if beside is not None and _origin(spec) != beside:
            raise PipelineError(
                f"`imports`: {name!r} is at {beside}, but Python finds another module of that "
                f"name first: {_origin(spec) or 'a part of Python'}. Rename yours."
            )
        try:
            importlib.import_module(name)
        except DataError:
            raise
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            raise PipelineError(
                f"`imports`: the module {name!r} cannot be imported: {type(error).__name__}: "
                f"{error} ({at.filename}, line {at.lineno})."
            ) from error

    def _spec(self, name: str) -> ModuleSpec:
        """Finds a module, as Python does and in the folder of the experiment."""
        if not re.fullmatch(r"\w+(\.\w+)*", name):
            raise PipelineError(
                f"`imports` names modules, such as 'my_scores' for my_scores.py. Received: {name!r}"
            )
        if self.folder and self.folder not in sys.path:
            sys.path.append(self.folder)
            importlib.invalidate_caches()
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):  # of a package above it
            spec = None
        if spec is None:
            places = [self.folder, *(path for path in sys.path if path != self.folder)]
            raise PipelineError(
                f"`imports`: no module {name!r} is found. Expected {name.replace('.', '/')}.py in "
                f"the folder of the experiment file or on PYTHONPATH. Searched: "
                f"{', '.join(path for path in places if path)}."
            )
        return spec

    def _beside(self, name: str) -> Path | None:
        """The module's file in the folder of the experiment, if there is one."""
        path = Path(self.folder, *name.split("."))
        files = (path.with_suffix(".py"), path / "__init__.py")
        return next((file.resolve() for file in files if file.is_file()), None)


NO_PARTS = OwnParts()


def _origin(spec: ModuleSpec) -> Path | None:
    path = Path(spec.origin) if spec.origin else None
    return path.resolve() if path is not None and path.is_file() else None


def _files(spec: ModuleSpec) -> Iterator[Path]:
    for folder in spec.submodule_search_locations or ():
        yield from sorted(Path(folder).rglob("*.py"))
    origin = _origin(spec)
    if origin is not None and not spec.submodule_search_locations:
        yield origin
