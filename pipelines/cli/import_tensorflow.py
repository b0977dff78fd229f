"""Imports TensorFlow without its start-up notices (oneDNN, missing GPU)."""

from __future__ import annotations

import os


def import_tensorflow() -> None:
    """Imports TensorFlow with the process's standard error redirected to /dev/null.

    The notices come from C++ before any logging setting is read; the environment variable
    silences later ones. Errors still arrive as exceptions.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    saved = os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    try:
        import tensorflow as tf

        tf.config.list_physical_devices("GPU")  # loads the CUDA libraries, with notices
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(silence)
