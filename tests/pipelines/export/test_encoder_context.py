"""An encoder with times and a context of the request scores alike trained, exported and served."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.features import FittedFeatures
from recsys_attn.id_transforms import Age
from recsys_attn.schema import Categorical, Schema, Sequence
from tests.support import shop
from tests.support.exports import write_export

NAMES = ("user", "city", "item", "past_items")
KEPT = [feature for feature in shop.SCHEMA.features if feature.name in NAMES]
SCHEMA = Schema(
    (
        *(f for f in KEPT if isinstance(f, Categorical)),
        Sequence("past_items", shares="item", history="past", dtype="int64", max_length=5),
        # Seconds before the request, which the positions of the encoder read.
        Sequence("past_ages", history="past", dtype="float32", max_length=5, transform=Age()),
    ),
    shop.SCHEMA.tasks,
)


@pytest.fixture(scope="module")
def fitted() -> FittedFeatures:
    return shop.fitted(SCHEMA)


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["film", "keys"])  # before the blocks, and in them
def test_the_exported_model_scores_like_the_trained_one(
    how: str, fitted: FittedFeatures, tmp_path: Path
) -> None:
    context = {"features": ["user", "city"], "how": how}
    encoder = {"name": "transformer", "positions": "time_intervals", "context": context}
    model = shop.model(fitted, encoder=encoder)
    manifest = write_export(tmp_path / "1", model, fitted)
    assert manifest["parity"]["max_abs_difference"] < 1e-5
