"""The examples in docstrings run and show what happens, and whatever is made to be used has one."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType
from typing import Any

import keras
import pytest

import recsys_attn

MODULES = [
    *sorted(m.name for m in pkgutil.walk_packages(recsys_attn.__path__, "recsys_attn.")),
    "pipelines.features.lists",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    # As typed by a user: a class that an example defines is not one of the package.
    typed = {"__name__": "__main__"}
    assert doctest.testmod(importlib.import_module(name), extraglobs=typed).failed == 0


def public(module: ModuleType) -> list[Any]:
    """The layers and losses that a module defines."""
    kinds = (keras.layers.Layer, keras.losses.Loss)
    return [
        item
        for name, item in vars(module).items()
        if getattr(item, "__module__", None) == module.__name__
        and not name.startswith("_")
        and isinstance(item, type)
        and issubclass(item, kinds)
    ]


def test_every_layer_and_loss_has_an_example() -> None:
    items = [item for name in MODULES for item in public(importlib.import_module(name))]
    assert [item.__qualname__ for item in items if ">>> " not in (item.__doc__ or "")] == []
