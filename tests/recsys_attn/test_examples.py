"""The examples in docstrings run and show what happens."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import keras
import pytest

import recsys_attn

PACKAGES = ("attention", "blocks", "interactions", "multitask")
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(recsys_attn.__path__, "recsys_attn.")
    if module.name.split(".")[1] in PACKAGES
)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="once is enough")
@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
