"""Scores of chosen rows and their gradients, both ways and for any size of a chunk."""

from __future__ import annotations

import numpy as np
import pytest

from recsys_attn.objectives import chunked_scores
from tests.support.arrays import assert_close
from tests.support.catalogues import POSITIONS, SIZE, STATES, VECTORS, WIDTH
from tests.support.gradients import gradient

RNG = np.random.default_rng(5)
PLACES = RNG.integers(0, SIZE, (POSITIONS, 3)).astype("int32")
FACTORS = RNG.normal(size=PLACES.shape).astype("float32")


@pytest.mark.parametrize("positions", [1, 4, 13, 17])
@pytest.mark.parametrize(("most_rows", "numbers"), [(0, 3 * WIDTH), (32, SIZE)])
def test_scores_are_products_of_the_chosen_rows(
    positions: int, most_rows: int, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked_scores, "MOST_ROWS_FOR_EACH", most_rows)
    monkeypatch.setattr(chunked_scores, "CHUNK_NUMBERS", positions * numbers)
    found = chunked_scores.scores_at(STATES, VECTORS, PLACES)
    assert_close(found, np.einsum("pe,pke->pk", STATES, VECTORS[PLACES]), atol=1e-5)

    by_states = gradient(lambda x: FACTORS * chunked_scores.scores_at(x, VECTORS, PLACES), STATES)
    assert_close(by_states, np.einsum("pk,pke->pe", FACTORS, VECTORS[PLACES]), atol=1e-5)

    by_rows = np.zeros(VECTORS.shape)
    np.add.at(by_rows, PLACES, FACTORS[..., None] * STATES[:, None])
    found = gradient(lambda x: FACTORS * chunked_scores.scores_at(STATES, x, PLACES), VECTORS)
    assert_close(found, by_rows, atol=1e-5)
