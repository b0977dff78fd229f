"""A ranking model that starts from a sequence model of several seeds."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from benchmarks.boards_on_jax.arrays import of_encoder, of_rows
from benchmarks.boards_on_jax.encoder import started
from recsys_attn.models import din, sasrec
from recsys_attn.schema import Categorical, Schema, Sequence, Task

EVENTS = Schema((Sequence("film", size=7, max_length=5),), ())
SCHEMA = Schema(
    (Categorical("item", size=9), Sequence("seen", shares="item", max_length=5)), (Task("click"),)
)
NEW, OLD = np.array([0, 1, 2, 5]), np.array([0, 1, 6, 3])  # rows of the values that both know


@pytest.mark.thorough
@pytest.mark.parametrize("train", ["tuned", "frozen"])
def test_a_seed_has_its_encoder_and_its_rows(train: str) -> None:
    trained, rng = [sasrec(EVENTS, width=8) for _ in range(2)], np.random.default_rng(0)
    for each in trained:
        each.set_weights([rng.normal(size=x.shape) for x in each.weights])
    weights = zip(*(each.trainable_variables for each in trained), strict=True)
    arrays = {of_encoder(number): np.stack(both) for number, both in enumerate(weights)}
    arrays |= {of_rows("seen", "new"): NEW, of_rows("seen", "old"): OLD}
    encoder = {
        "schema": EVENTS.to_dict(),
        "model": {"name": "sasrec", "width": 8},
        "history": "history",
        "train": train,
        "pairs": [["seen", "film"]],
    }
    model = din(SCHEMA, width=8, mlp_units=(4,))
    before = ops.convert_to_numpy(model.embedding.vectors("item"))
    for place, each in enumerate(trained):
        found = started(model, encoder, arrays, place)
        made = found.tower.histories["history"].encoder
        for mine, theirs in zip(made.weights, each.encoder.weights, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert bool(made.trainable_variables) == (train == "tuned")
        rows = ops.convert_to_numpy(found.embedding.vectors("item"))
        np.testing.assert_array_equal(
            rows[NEW], ops.convert_to_numpy(each.embedding.vectors("film"))[OLD]
        )
        assert rows.shape == before.shape
