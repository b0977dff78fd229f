"""Mask networks equal the paper's equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.interactions import MaskBlock, MaskNetwork
from tests.support import reference
from tests.support.arrays import Array, assert_close, normal
from tests.support.layer_case import randomise

(FIELDS,) = normal((2, 3, 5, 4))
PRESENT = np.random.default_rng(1).random((2, 3, 5)) < 0.7


def normalised(x: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6))


def block_output(block: MaskBlock, x: Array, v: Array) -> Array:
    one, two = (
        [np.asarray(w, "float64") for w in dense.weights]
        for dense in (block.aggregation, block.projection)
    )
    mask = reference.relu(v @ one[0] + one[1]) @ two[0] + two[1]
    assert one[0].shape[1] == 3 * mask.shape[-1]
    hidden = (mask * x) @ np.asarray(block.dense.kernel, "float64")
    if block.norm == "none":
        return reference.relu(hidden + np.asarray(block.dense.bias))
    scale, offset = (np.asarray(w, "float64") for w in block.normalisation.weights)
    return reference.relu(normalised(hidden) * scale + offset)


@pytest.mark.parametrize(
    "options", [{}, {"structure": "serial"}, {"embedding_norm": False, "norm": "none"}], ids=str
)
def test_layer_equals_the_paper(options: dict[str, Any]) -> None:
    layer = MaskNetwork((6, 3), reduction=3, **options)
    layer(FIELDS)
    randomise(layer)
    fields = np.where(PRESENT[..., None], FIELDS.astype("float64"), 0)
    v = fields.reshape(2, 3, 20)
    x = v
    if layer.embedding_norm:
        own = normalised(fields) * np.asarray(layer.scale) + np.asarray(layer.offset)
        x = np.where(PRESENT[..., None], own, 0).reshape(2, 3, 20)
    first, second = layer.blocks
    one = block_output(first, x, v)
    if layer.structure == "serial":
        expected = block_output(second, one, v)
    else:
        expected = np.concatenate([one, block_output(second, x, v)], axis=-1)
    assert np.any(expected)
    assert_close(layer(FIELDS, present=PRESENT), expected, rtol=1e-3)


def test_no_block_and_an_unknown_structure_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one block"):
        MaskNetwork(())
    with pytest.raises(ValueError, match="Did you mean 'serial'"):
        MaskNetwork(structure="seriel")
