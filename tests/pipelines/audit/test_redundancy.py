"""Likeness of heads: limits and loops."""

import numpy as np
import pytest

from pipelines.audit.redundancy import HeadLikeness, cka, most_alike
from tests.pipelines.audit.records import TARGET, record, softmax


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2)


def test_cka_ignores_rotation_scale_and_offset(rng):
    x = rng.normal(size=(200, 6))
    rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    found = cka(np.stack([x, 5 * x @ rotation + 3, rng.normal(size=x.shape)]))
    assert found[0, 1] == pytest.approx(1)
    np.testing.assert_allclose(found, found.T)
    assert abs(found[0, 2]) < 0.1


def test_cka_of_independent_outputs_has_no_bias(rng):
    draws = [cka(rng.normal(size=(2, 20, 30)))[0, 1] for _ in range(300)]
    # The plain estimate would be near 0.6 here.
    assert abs(np.mean(draws)) < 4 * np.std(draws) / np.sqrt(300)


def test_cka_is_that_of_sums_over_four_things(rng):
    """HSIC without bias is a mean over tuples of four different rows (Song et al., 2012)."""
    x, y = rng.normal(size=(2, 6, 3))
    found = cka(np.stack([x, y]))[0, 1]

    def hsic(one, other):
        k, m = one @ one.T, other @ other.T
        tuples = [
            (i, j, q, r)
            for i in range(6)
            for j in range(6)
            for q in range(6)
            for r in range(6)
            if len({i, j, q, r}) == 4
        ]
        return np.mean([k[i, j] * (m[i, j] + m[q, r] - 2 * m[i, q]) for i, j, q, r in tuples])

    assert found == pytest.approx(hsic(x, y) / np.sqrt(hsic(x, x) * hsic(y, y)))


def test_cosines_and_overlaps_are_those_of_a_loop(rng):
    output, value = rng.normal(size=(5, 3, 2, 4)), rng.normal(size=(5, 6, 2, 4))
    weights = softmax(rng.normal(size=(5, 2, 3, 6)))
    keys = np.ones((5, 6), bool)
    keys[:, 4:] = False
    likeness = HeadLikeness()
    likeness.add(record(TARGET, weights, keys, output=output, value=value))
    found = likeness.redundancy()

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    outputs = np.mean([cosine(*output[b, t]) for b in range(5) for t in range(3)])
    values = np.mean([cosine(*value[b, s]) for b in range(5) for s in range(4)])
    overlap = np.mean([weights[b, 0, t] @ weights[b, 1, t] for b in range(5) for t in range(3)])
    assert found.outputs[0, 1] == pytest.approx(outputs)
    assert found.values[0, 1] == pytest.approx(values)
    assert found.weights[0, 1] == pytest.approx(overlap, rel=1e-5)
    assert most_alike(found, 0) == (1, pytest.approx(found.cka[0, 1]))
