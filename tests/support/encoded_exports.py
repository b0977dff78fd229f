"""Small ranking models that encode two histories, and requests for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipelines.common.artifacts import MANIFEST, write_json
from pipelines.features import FittedFeatures
from recsys_attn.models import RankingModel, dien, din
from recsys_attn.schema import Schema, Sequence
from tests.support import shop
from tests.support.exports import write_export

LONGEST = {"seen": 7, "searches": 3}
CANDIDATES = np.array([[0, -1, 7, 123]])
SCHEMA = Schema(
    (
        *(f for f in shop.SCHEMA.features if f.name in ("city", "item", "brand")),
        Sequence("past_items", shares="item", history="seen", dtype="int64", max_length=7),
        Sequence("past_brands", shares="brand", history="seen", max_length=7),
        Sequence("searches", history="searches", max_length=3),
    ),
    shop.SCHEMA.tasks,
)
CAUSAL = {"class_name": "transformer", "config": {"pattern": "causal"}}
ENCODERS: dict[str, dict[str, Any]] = {
    "rotary": {"name": CAUSAL, "positions": "rotary"},
    "counted": {
        "name": CAUSAL,
        "num_layers": 2,
        "positions": {"class_name": "learned", "config": {"from_end": False}},
    },
    "linear": {
        "name": {"class_name": "linear_transformer", "config": {"causal": True}},
        "positions": "sinusoidal",
    },
    "gru": {"name": "gru"},
    "from end": {"name": "transformer"},
    "context": {"name": "transformer", "context": {"features": ["city"], "how": "film"}},
}


def make(encoder: str, fitted: FittedFeatures, seed: int = 3) -> RankingModel:
    """Returns DIN over an encoder of `ENCODERS`, or DIEN, with weights that tell events apart."""
    if encoder == "dien":
        model = dien(fitted.schema, width=4, mlp_units=(5,))
    else:
        heads = {"num_heads": 2, "head_dim": 4}
        options = {**ENCODERS[encoder], **({} if encoder == "gru" else heads)}
        model = din(fitted.schema, width=4, mlp_units=(5,), encoder=options)
    rng = np.random.default_rng(seed)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(0, 0.4, weight.shape))
    return model


def write_encoded_export(folder: Path, encoder: str, seed: int = 3) -> dict[str, Any]:
    """Writes a version with its manifest, which is returned."""
    fitted = shop.fitted(SCHEMA)
    few = {"parity_rows": 2, "warmup_requests": 1}
    manifest = write_export(folder, make(encoder, fitted, seed), fitted, **few)
    write_json(folder / MANIFEST, manifest)
    return manifest


def request(seen: list[int], searches: list[str], city: int = 7) -> dict[str, np.ndarray]:
    """The inputs of `rank` for one request, without padding."""
    brands = [shop.STRINGS[item % 5] for item in seen]
    return {
        "city": np.array([city]),
        "item": CANDIDATES,
        "brand": np.array([[name.encode() for name in shop.STRINGS[:4]]], object),
        "past_items": np.array([seen or [np.iinfo("int64").min]]),
        "past_brands": np.array([[one.encode() for one in brands or [""]]], object),
        "searches": np.array([[one.encode() for one in searches or [""]]], object),
    }
