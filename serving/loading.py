"""How a version is loaded: the SavedModel, then its warm-up."""

from __future__ import annotations

import functools
from pathlib import Path

from serving.inference import replay
from serving.model import Model, load_model
from serving.runtimes.tensorflow_session import start_threads
from serving.warmup import warm_up


def load_and_warm(name: str, version: int, path: Path) -> Model:
    """A version that has answered what it brings along, and is ready for requests."""
    model = load_model(name, version, path)
    try:
        warm_up(model, functools.partial(replay, model))
    except BaseException:
        model.close()
        raise
    return model


def start_compute_threads() -> None:
    """Starts the threads that all models compute in.

    The first operation starts them, with the priority of the thread that it is run in. That
    must not be the thread that loads models, which has a low one.
    """
    start_threads()
