"""Scores of chosen rows and their gradients, both ways and for any size of a chunk."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from recsys_attn.objectives import chunked_scores
from tests.support.arrays import assert_close
from tests.support.catalogues import POSITIONS, SIZE, STATES, VECTORS, WIDTH
from tests.support.gradients import gradient

RNG = np.random.default_rng(5)
PLACES = RNG.integers(0, SIZE, (POSITIONS, 3)).astype("int32")
FACTORS = RNG.normal(size=PLACES.shape).astype("float32")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("positions", [1, 4, 13, 17])
@pytest.mark.parametrize(("per_draw", "numbers"), [(0, 3 * WIDTH), (32, SIZE)])
def test_scores_are_products_of_the_chosen_rows(
    positions: int, per_draw: int, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked_scores, "MOST_ROWS_PER_DRAW", per_draw)
    monkeypatch.setattr(chunked_scores, "CHUNK_NUMBERS", positions * numbers)
    scores = partial(chunked_scores.scores_at, places=PLACES, most=SIZE)
    found = scores(STATES, VECTORS)
    assert_close(found, np.einsum("pe,pke->pk", STATES, VECTORS[PLACES]), atol=1e-5)

    by_states = gradient(lambda x: FACTORS * scores(x, VECTORS), STATES)
    assert_close(by_states, np.einsum("pk,pke->pe", FACTORS, VECTORS[PLACES]), atol=1e-5)

    by_rows = np.zeros(VECTORS.shape)
    np.add.at(by_rows, PLACES, FACTORS[..., None] * STATES[:, None])
    found = gradient(lambda x: FACTORS * scores(STATES, x), VECTORS)
    assert_close(found, by_rows, atol=1e-5)
