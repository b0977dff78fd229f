"""The engine that a command line names. Ray is an extra: it is imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.engines.base import Engine
from pipelines.engines.local import Local


def choose_engine(name: str, address: str) -> Engine:
    """The engine `local` or `ray`; `address` is that of the Ray cluster."""
    return _import("pipelines.engines.ray.engine").Ray(address) if name == "ray" else Local()


def train_on_ray(
    experiment: Path,
    run_dir: Path | None,
    overrides: Sequence[str],
    force: bool,
    workers: int,
    address: str,
    console: Console,
) -> None:
    """Runs `recsys-attn train` with the same options in several workers on a Ray cluster."""
    arguments = ["train", str(experiment.resolve())]
    arguments += ["--run-dir", str(run_dir.resolve())] if run_dir else []
    arguments += [part for text in overrides for part in ("--set", text)]
    arguments += ["--force"] if force else []
    _import("pipelines.engines.ray.training").train(arguments, workers, address, console)


def _import(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "ray":
            raise
        raise PipelineError(
            'Ray is not installed, which --engine ray needs: pip install "recsys-attn[ray]".'
        ) from None
