"""Imports TensorFlow with oneDNN, and without its start-up notices."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from typing import Any

from pipelines.common.errors import PipelineError


def set_defaults() -> None:
    """Sets the variables that TensorFlow reads when it is imported, unless they are set.

    On older processors TensorFlow leaves oneDNN's operations off, with which most models are faster
    there too (`docs/reference/benchmarks.md`).
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def import_tensorflow() -> None:
    """Imports TensorFlow with the process's standard error redirected to /dev/null.

    The notices come from C++ before any logging setting is read; a variable silences later ones.
    Errors still arrive as exceptions.

    Raises:
        PipelineError: Keras has another backend already.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"  # SavedModels are TensorFlow's
    keras = sys.modules.get("keras")
    if keras is not None and keras.config.backend() != "tensorflow":
        raise PipelineError(
            "The pipelines need Keras on TensorFlow. Set KERAS_BACKEND=tensorflow before the "
            f"first import of Keras. Received: {keras.config.backend()!r}"
        )
    set_defaults()
    modules: dict[str, Any] = sys.modules
    modules.setdefault("sklearn", None)  # Keras would import it for wrappers: a second
    saved = os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    try:
        import tensorflow as tf

        importlib.import_module("keras")
        tf.config.list_physical_devices("GPU")  # loads the CUDA libraries, with notices
        # Advice to programmers, such as on traces, is nothing that a user of a command can follow.
        tf.get_logger().setLevel("ERROR")
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(silence)
        if modules["sklearn"] is None:
            del modules["sklearn"]
