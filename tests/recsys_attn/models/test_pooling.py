"""Fields and histories are pooled without missing values, by the maximum or the mean."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.interactions import AutoInt
from recsys_attn.models.building_blocks import FieldInteraction
from recsys_attn.models.histories import MaxHistory
from recsys_attn.schema import Categorical, Schema
from tests.support.small_models import SCHEMA, B, T, inputs, scores


@pytest.mark.parametrize("kind", ["max", "mean"])
def test_fields_are_pooled_without_missing_ones(kind: str) -> None:
    rng = np.random.default_rng(3)
    fields = rng.normal(size=(B, T, 7, 4)).astype("float32") - 2
    present = rng.random((B, T, 7)) < 0.5
    present[0, 1] = False
    output = keras.ops.convert_to_numpy(FieldInteraction(field_pooling=kind)([fields], [present]))
    for b, t in np.ndindex(B, T):
        known = fields[b, t][present[b, t]].astype("float64")
        expected = getattr(known, kind)(axis=0) if len(known) else np.zeros(4)
        np.testing.assert_allclose(output[b, t], expected, rtol=1e-6)
    assert not output[0, 1].any()


def test_fields_that_cannot_be_pooled_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`field_pooling`: expected a name.*Did you mean 'max'"):
        models.mlp(SCHEMA, field_pooling="maxi")
    with pytest.raises(ValueError, match="`field_pooling` is for the embeddings that `mlp` gets"):
        FieldInteraction(AutoInt(1), field_pooling="max")
    features = (*SCHEMA.features[:5], Categorical("brand", size=3, width=2))
    with pytest.raises(ValueError, match=r"='mean' needs fields of one width.*\[2, 4\]"):
        models.mlp(Schema(features, SCHEMA.tasks), width=4, field_pooling="mean")


def test_max_pooling_is_the_greatest_of_each_channel() -> None:
    events = np.random.default_rng(3).normal(size=(3, 5, 4)).astype("float32") - 2
    present = np.array([[1, 0, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], bool)
    output = keras.ops.convert_to_numpy(MaxHistory()(events, events, present))
    for row in range(3):
        expected = np.zeros(4)
        for channel in range(4):
            seen = [events[row, s, channel] for s in range(5) if present[row, s]]
            expected[channel] = max(seen, default=0)
        np.testing.assert_array_equal(output[row, 0], expected.astype("float32"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["autoint", "mlp", "mmoe"])
def test_histories_are_pooled_by_name(name: str) -> None:
    made = [models.get(name)(SCHEMA, width=4, history_pooling=kind) for kind in ("max", "mean")]
    one, _ = (scores(model, inputs()) for model in made)
    made[1].set_weights(made[0].get_weights())
    other = scores(made[1], inputs())
    assert any(not np.allclose(one[task], other[task]) for task in one)
    with pytest.raises(ValueError, match=r"`history_pooling`: expected a name.*'max'"):
        models.get(name)(SCHEMA, width=4, history_pooling="maxi")
