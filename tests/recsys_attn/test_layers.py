"""Every layer of attention, blocks, interactions and multitask passes the shared checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import pytest

from recsys_attn import attention, blocks, interactions, multitask
from recsys_attn.attention import gates, mechanisms, routers, scores, weightings
from tests.support.compositions import COMPOSITIONS
from tests.support.layer_case import LayerCase, grouped
from tests.support.layer_cases import LAYER_CASES
from tests.support.layer_checks import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", grouped(LAYER_CASES))
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
    cases = [*LAYER_CASES.values(), *(each.case for each in COMPOSITIONS.values())]
    checked = {type(part) for case in cases for part in case.make()._flatten_layers()}
    assert layers - abstract - checked == set()
