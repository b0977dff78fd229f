"""The environment of a process that runs a backend."""

from __future__ import annotations

import os

# JAX compiles every operation of every shape that a test meets: quickly matters more than well.
# XLA's older code generator takes half the time of the newer one to compile a small operation.
QUICK_JAX = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
QUICK_XLA = "--xla_cpu_use_fusion_emitters=false"


def environment(backend: str) -> dict[str, str]:
    """This process's, with Keras on another backend."""
    found = {**os.environ, "KERAS_BACKEND": backend}
    if backend == "jax":
        flags = found.get("XLA_FLAGS", "")  # those of `make portable` stay
        flags = flags if QUICK_XLA in flags else f"{QUICK_XLA} {flags}"
        found = {**QUICK_JAX, **found, "XLA_FLAGS": flags}
    return found
