"""Every preset goes into every place of a model that attends, by one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.attention import presets
from tests.recsys_attn.models.test_models import SCHEMA, inputs, scores
from tests.support.layer_case import tensorflow

SMALL = {
    "performer": {"features": 8},
    "random_feature_attention": {"features": 8},
    "linformer": {"rank": 3},
    "reformer": {"size": 4, "buckets": 2, "rounds": 1},
    "routing_transformer": {"clusters": 2, "window": 4},
    "sinkhorn": {"size": 4},
    "bigbird": {"size": 2, "count": 1},
    "local": {"window": 2},
    "longformer": {"window": 2},
    "sparse_transformer": {"stride": 2},
}
PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "mechanism": ("autoint", {"num_layers": 1, "num_heads": 2, "head_dim": 4}),
    "encoder": ("din", {"mlp_units": (5,), "encoder_head_dim": 4}),
    "target_attention": ("din", {"mlp_units": (5,)}),
    "gate_attention": ("mmoe", {"gate": "attention", "num_experts": 3, "expert_units": (4,)}),
}


def model(place: str, preset: str) -> Any:
    name, arguments = PLACES[place]
    part = {"class_name": preset, "config": SMALL.get(preset, {})}
    return models.get(name)(SCHEMA, width=4, **arguments, **{place: part})


@pytest.mark.parametrize("preset", sorted(presets.PRESETS))
@pytest.mark.parametrize("place", PLACES)
def test_a_preset_in_a_place(place: str, preset: str) -> None:
    tensorflow()  # the compositions run on every backend; how models hold them is the same
    ranker = model(place, preset)
    values = inputs(candidates=4)
    found = scores(ranker, values)
    for score in found.values():
        assert score.shape == (5, 4)
        assert np.isfinite(score).all()
    # Candidates do not see each other, whatever attends.
    alone = scores(ranker, {**values, **{n: values[n][:, :1] for n in ("item", "tags", "price")}})
    for task, score in alone.items():
        np.testing.assert_allclose(score, found[task][:, :1], rtol=1e-4, atol=1e-5)


def test_an_instance_makes_each_layer_one_of_its_own(tmp_path: Path) -> None:
    arguments: Any = {
        "encoder": presets.performer(8),
        "encoder_layers": 2,
        "target_attention": presets.din((4,)),
    }
    ranker = models.din(SCHEMA, width=4, mlp_units=(5,), **arguments)
    ranker.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected = scores(ranker, inputs())
    for task, score in scores(loaded, inputs()).items():
        np.testing.assert_allclose(score, expected[task], rtol=1e-5, atol=1e-6)
