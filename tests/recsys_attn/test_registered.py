"""One light import is enough for Keras to load every saved object of the package."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from importlib.machinery import ModuleSpec, SourcelessFileLoader
from pathlib import Path

import keras
import numpy as np
import pytest

import recsys_attn
from recsys_attn import registered
from recsys_attn.interactions import TargetAttention
from recsys_attn.losses import CandidateCrossentropy
from recsys_attn.multitask import MMoE
from recsys_attn.optimizers import LazyAdam


def test_every_registered_class_has_its_name() -> None:
    for module in pkgutil.walk_packages(recsys_attn.__path__, "recsys_attn."):
        importlib.import_module(module.name)
    actual = {
        name.removeprefix("recsys_attn>")
        for name, part in keras.saving.get_custom_objects().items()
        if name.startswith("recsys_attn>") and part.__module__.startswith("recsys_attn.")
    }
    assert actual == set(registered.NAMES)
    assert len(registered.NAMES) == len(actual)


def test_public_names_are_there_at_first_use() -> None:
    for name in recsys_attn.__all__:
        assert getattr(recsys_attn, name) is not None
    assert recsys_attn.MMoE is MMoE
    with pytest.raises(AttributeError, match="no attribute 'MMOE'"):
        _ = recsys_attn.MMOE


LOADING = """
import sys
{imports}
import json
import numpy as np
layers = [name for name in sys.modules if name.startswith("recsys_attn.attention")]
assert not layers, layers
model = keras.saving.load_model(sys.argv[1])
print(json.dumps(np.asarray(model([np.ones((2, 3, 5)), np.ones((2, 7, 5))])).tolist()))
print(json.dumps([type(model.optimizer).__name__, type(model.loss).__name__]))
every = keras.saving.get_custom_objects()
left = [name for name, part in every.items() if not isinstance(part, type)]
assert not left, left
"""
PROBES = """
from importlib.util import find_spec
assert find_spec("keras") and find_spec("keras") and "keras" not in sys.modules
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", ["recsys_attn", "keras"])
def test_a_fresh_process_loads_a_model_after_one_import(first: str, tmp_path: Path) -> None:
    items, events = keras.Input((3, 5)), keras.Input((7, 5))
    outputs = MMoE(2, 2, (4,))(TargetAttention("additive")(items, events))
    model = keras.Model([items, events], keras.ops.stack(keras.tree.flatten(outputs)))
    model.compile(LazyAdam(), CandidateCrossentropy())
    model.save(tmp_path / "model.keras")
    second = {"recsys_attn": "keras", "keras": "recsys_attn"}[first]
    imports = f"import {first}\n{PROBES if first == 'recsys_attn' else ''}import {second}"
    run = subprocess.run(
        [sys.executable, "-c", LOADING.format(imports=imports), tmp_path / "model.keras"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    actual, parts = map(json.loads, run.stdout.splitlines())
    expected = model([np.ones((2, 3, 5)), np.ones((2, 7, 5))])
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    assert parts == ["LazyAdam", "CandidateCrossentropy"]


def test_another_loader_of_keras_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    finder, loader = registered._KerasFinder(), SourcelessFileLoader("keras", "keras.pyc")
    assert finder.find_spec("numpy", None) is None
    usual, other = finder.find_spec("keras", None), ModuleSpec("keras", loader)
    assert isinstance(getattr(usual, "loader", None), registered._KerasLoader)
    monkeypatch.setattr(registered.PathFinder, "find_spec", lambda *_: other)
    assert finder.find_spec("keras", None) is other
    assert other.loader is loader
