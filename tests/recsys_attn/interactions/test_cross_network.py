"""Cross networks equal the papers' equations, and their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.interactions import CrossNetwork
from tests.support import reference
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(2, 3, 7)).astype("float32")
OPTIONS: dict[str, dict[str, Any]] = {
    "DCN": {"kind": "vector"},
    "DCN-V2": {},
    "low rank": {"rank": 3},
    "mixture": {"rank": 3, "num_experts": 4},
    "GDCN": {"gated": True},
}


def built(**options: Any) -> CrossNetwork:
    layer = CrossNetwork(2, **options)
    layer(INPUTS)
    randomise(layer)
    return layer


def factors(x: np.ndarray, weights: dict[str, np.ndarray], rank: int | None) -> np.ndarray:
    """f(x), from the sum over experts in full."""
    if rank is None:
        gate = 1 / (1 + np.exp(-x @ weights["gate"])) if "gate" in weights else 1.0
        return (x @ weights["kernel"] + weights["bias"]) * gate
    if "choice" not in weights:
        return x @ weights["down"] @ weights["up"] + weights["bias"]
    shares, total = reference.softmax_weights(x @ weights["choice"]), 0.0
    for expert, between in enumerate(weights["between"]):
        own = slice(expert * rank, (expert + 1) * rank)
        low = np.tanh(np.tanh(x @ weights["down"][:, own]) @ between)
        part = low @ weights["up"][own] + weights["bias"]
        total = total + shares[..., expert : expert + 1] * part
    return np.asarray(total)


@pytest.mark.parametrize("name", OPTIONS)
def test_layer_equals_the_papers(name: str) -> None:
    layer, first = built(**OPTIONS[name]), INPUTS.astype("float64")
    x = first
    for own in layer.layers:
        weights = {n: np.asarray(w, "float64") for n, w in own.items()}
        if name == "DCN":
            x = first * (x @ weights["kernel"]) + weights["bias"] + x
        else:
            x = first * factors(x, weights, layer.rank) + x
    assert_close(layer(INPUTS), x)


def test_the_matrix_kind_with_equal_columns_is_the_vector_kind() -> None:
    """W with equal columns multiplies each number by one product, as DCN does."""
    matrix, vector = built(), built(kind="vector")
    for own, other in zip(matrix.layers, vector.layers, strict=True):
        own["kernel"].assign(np.tile(np.asarray(other["kernel"]), (1, 7)))
        for layer in (own, other):
            layer["bias"].assign(np.zeros(7))
    assert_close(matrix(INPUTS), np.asarray(vector(INPUTS)))


def test_the_order_grows_with_each_layer() -> None:
    """Twice the input is at most 2^(layers + 1) times the output without offsets."""
    layer = built()
    for own in layer.layers:
        own["bias"].assign(np.zeros(7))
    scales = np.float32([1, 2, 3, 4, 5])
    outputs = np.stack([np.asarray(layer(s * INPUTS), "float64") for s in scales])
    polynomial = np.vander(scales.astype("float64"), 4)[:, :3]  # s^3, s^2, s
    solved = np.linalg.lstsq(polynomial, outputs.reshape(5, -1), rcond=None)
    np.testing.assert_allclose(polynomial @ solved[0], outputs.reshape(5, -1), rtol=1e-4, atol=1e-3)
    assert np.abs(solved[0][0]).max() > 1e-2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "vectr"}, "Did you mean 'vector'"),
        ({"kind": "vector", "rank": 2}, "`rank` is that of the matrices"),
        ({"gated": True, "rank": 2}, "`rank` is that of the matrices"),
        ({"num_experts": 2}, "Give `rank`"),
        ({"kind": "vector", "gated": True}, "`gated` needs kind='matrix'"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CrossNetwork(**options)
