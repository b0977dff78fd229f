"""Bilinear layers equal the papers' sums, pair by pair and head by head."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from recsys_attn.interactions import BilinearFusion, BilinearInteraction
from tests.support.arrays import Array, assert_close, normal
from tests.support.layer_case import randomise

FIELDS, VECTORS = normal((2, 3, 5, 4), (2, 3, 10))
PAIRS = list(itertools.combinations(range(5), 2))
OF_A_PAIR = {
    "all": lambda i, j: 0,
    "each": lambda i, j: i,
    "interaction": lambda *p: PAIRS.index(p),
}


def matrices(kernel: Any, count: int) -> list[Array]:
    return np.split(np.asarray(kernel, "float64"), count, axis=1)


@pytest.mark.parametrize("kind", OF_A_PAIR)
def test_every_pair_has_the_matrix_of_its_kind(kind: str) -> None:
    layer = BilinearInteraction(kind)
    layer(FIELDS)
    randomise(layer)
    own = matrices(layer.kernel, {"all": 1, "each": 4, "interaction": 10}[kind])
    v = FIELDS.astype("float64")
    expected = [v[..., i, :] @ own[OF_A_PAIR[kind](i, j)] * v[..., j, :] for i, j in PAIRS]
    assert_close(layer(FIELDS), np.stack(expected, axis=-2))


def test_a_missing_field_has_no_product() -> None:
    fields = FIELDS.copy()
    fields[..., 1, :] = 0
    output = np.asarray(BilinearInteraction()(fields))
    for place, pair in enumerate(PAIRS):
        assert np.any(output[..., place, :]) == (1 not in pair)


def test_the_fusion_is_a_bilinear_form_of_each_head() -> None:
    layer = BilinearFusion((6, 4), units=3, num_heads=2)
    layer(VECTORS)
    randomise(layer)
    dense, bias = (np.asarray(w, "float64") for w in layer.linear.weights)
    x = VECTORS.astype("float64")
    expected = x @ dense + bias
    forms = matrices(layer.kernel, 6)  # by head, then by output
    for head, unit in np.ndindex(2, 3):
        first, second = x[..., 3 * head : 3 * head + 3], x[..., 6 + 2 * head : 8 + 2 * head]
        for index in np.ndindex(2, 3):
            form = forms[3 * head + unit]
            expected[index][unit] += first[index] @ form @ second[index]
    assert_close(layer(VECTORS), expected)


@pytest.mark.parametrize("heads", [1, 20])
def test_a_new_fusion_has_the_scale_of_its_vectors(heads: int) -> None:
    (vectors,) = normal((500, 100))
    assert 0.8 < np.std(BilinearFusion((60, 40), 2, heads)(vectors)) < 2.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": (6, 4), "num_heads": 3}, r"`num_heads` must divide .* num_heads=3"),
        ({"sizes": (6,)}, r"`sizes` must be those of two vectors. Received: sizes=\[6\]"),
        ({"sizes": (6, 5)}, r"must have the sum of `sizes`, 11"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BilinearFusion(**options)(VECTORS)


def test_an_unknown_kind_and_a_lone_field_are_refused() -> None:
    with pytest.raises(ValueError, match="Did you mean 'each'"):
        BilinearInteraction("eech")
    with pytest.raises(ValueError, match="at least two fields"):
        BilinearInteraction()(FIELDS[:, :, :1])
