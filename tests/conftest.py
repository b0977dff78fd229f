"""What every test starts from."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# JAX compiles every operation of every shape that a test meets: quickly matters more than well.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if os.environ["KERAS_BACKEND"] == "jax":
    # XLA's older code generator takes half the time of the newer one to compile a small operation.
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> None:
    """The same numbers in every run and in any order of the tests."""
    if {"oracles", "pipelines", "recsys_attn"}.intersection(request.node.path.parts):
        import keras

        keras.utils.set_random_seed(7)
