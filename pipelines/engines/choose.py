"""Selects the engine of `--engine`. Ray is an extra, imported only on request."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.common.own_parts import NO_PARTS, OwnParts
from pipelines.engines.base import LOCAL, Engine


def choose_engine(name: str, address: str, parts: OwnParts = NO_PARTS) -> Engine:
    """Returns the engine `local` or `ray`.

    Args:
        name: The name.
        address: Address of the Ray cluster.
        parts: The user's modules, which its workers import.
    """
    return (
        _import("pipelines.engines.ray.engine").RayEngine(address, parts)
        if name == "ray"
        else LOCAL
    )


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
