"""TensorFlow's start-up notices (oneDNN, no GPU) are not for the user."""

from __future__ import annotations

import os


def import_tensorflow() -> None:
    """Imports TensorFlow with the process's standard error closed.

    The notices of the import come from C++ before any logging setting is read, so only the
    descriptor can keep them away; the variable keeps away later ones. Errors arrive as
    exceptions all the same.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    saved = os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    try:
        import tensorflow as tf

        tf.config.list_physical_devices("GPU")  # looks for CUDA's libraries, with notices
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(silence)
