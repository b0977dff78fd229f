"""Every layer of attention, blocks, interactions and multitask passes the shared checks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

from recsys_attn import attention, blocks, interactions, multitask
from recsys_attn.attention import gates, mechanisms, routers, scores, weightings
from tests.support.arrays import assert_close
from tests.support.compositions import COMPOSITIONS
from tests.support.layer_case import LayerCase, grouped, tensorflow
from tests.support.layer_cases import LAYER_CASES
from tests.support.layer_checks import CHECKS, OF_CLASSES

# The last case of each class, which has more options than the first.
OF_CLASS = {case.layer: case for case in LAYER_CASES.values()}


def _checked() -> Iterator[Any]:
    """Checks of a class run in one of its cases, and on JAX, which compiles each, all checks do.

    `make thorough` has the others.
    """
    checks = CHECKS if keras.backend.backend() == "jax" else OF_CLASSES
    for case, check in itertools.product(grouped(LAYER_CASES), CHECKS):
        again = check in checks and OF_CLASS[case.values[0].layer] is not case.values[0]
        marks = [*case.marks, pytest.mark.thorough] if again else case.marks
        name = f"{case.id}-{check.__name__}"
        yield pytest.param(case.values[0], check, id=name, marks=marks)


@pytest.mark.parametrize(("case", "check"), tuple(_checked()))
def test_layer(case: LayerCase, check: Callable[[LayerCase, Path], None], tmp_path: Path) -> None:
    check(case, tmp_path)


def test_every_exported_layer_is_checked() -> None:
    """In a case of its own or as a part of a composition."""
    slots = (scores, weightings, gates, mechanisms, routers)
    exported = {
        getattr(module, name)
        for module in (attention, *slots, blocks, interactions, multitask)
        for name in module.__all__
        if isinstance(getattr(module, name), type)
    }
    layers = {item for item in exported if issubclass(item, keras.layers.Layer)}
    abstract = {mechanisms.Mechanism, scores.Score, weightings.Weighting, routers.Router}
    abstract |= {mechanisms.PairValues}
    cases = [*LAYER_CASES.values(), *(each.case for each in COMPOSITIONS.values())]
    checked = {type(part) for case in cases for part in case.make()._flatten_layers()}
    assert layers - abstract - checked == set()


@pytest.mark.thorough
def test_export_gives_the_same_in_a_fresh_process(tmp_path: Path) -> None:
    """In every batch and length; random constants are saved and not drawn again.

    Each part once, and once in a causal composition, which has other loops.
    """
    tensorflow()
    from tests.support.fresh_process import export_all, serve_all  # TensorFlow's alone

    every = [(f"composition {n}", c.case, c.causal) for n, c in COMPOSITIONS.items()]
    every += [(name, case, False) for name, case in LAYER_CASES.items()]
    parts = {
        name: {(type(part), causal) for part in case.make()._flatten_layers()}
        for name, case, causal in every
    }
    cases, seen = {}, set()
    for name, case, _ in sorted(every, key=lambda each: -len(parts[each[0]])):
        if parts[name] - seen:
            cases[name] = case
            seen |= parts[name]
    expected, actual = export_all(cases, tmp_path), serve_all(cases, tmp_path)
    assert actual.keys() == expected.keys()
    for name, outputs in expected.items():
        for output, wanted in zip(actual[name], outputs, strict=True):
            assert output.keys() == wanted.keys()
            for key, value in wanted.items():
                assert_close(output[key], value, err_msg=name)
