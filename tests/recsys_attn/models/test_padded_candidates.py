"""Lists of different lengths: padding enters no logit, no penalty and no statistic of training."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.embeddings import CANDIDATE_MASK
from recsys_attn.models.ranking import RankingModel
from tests.support.small_models import SCHEMA, SMALL, B, T, inputs

PADDED = 5
HEADS = {"subspace": 0.3, "positions": 0.5, "outputs": 0.7}
ALL_PLACES = {
    "disagreement": {
        "encoder": HEADS,
        "target_attention": HEADS,
        "interaction": HEADS,
        "experts": {"outputs": 0.7},
    },
    "gates": "hard_concrete",
    "experts": {**SMALL["attention_ranker"]["experts"], "balance": 0.3},
    "encoder": "transformer",
    "target_attention": {"name": "transformer", "num_heads": 2},
}
CLUSTERS = {"class_name": "routing_transformer", "config": {"clusters": 2, "window": 4}}
LISTED: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in SMALL},
    "every penalty": ("attention_ranker", ALL_PLACES),
    "clusters of fields": ("attention_ranker", {"interaction": CLUSTERS}),
    "heads of fields": ("autoint", {"disagreement": HEADS}),
    "heads of unary terms": ("destine", {"disagreement": HEADS}),
    "experts by attention": ("mmoe", {"gate": "attention", "experts": {"balance": 0.3}}),
    "experts of layers": ("ple", {"experts": {"balance": 0.3}}),
    "batch norm": ("dcn", {"norm": "batch"}),
    "dice": ("mlp", {"activation": "dice"}),
    "order": ("aitm", {"order_penalty": 3.0}),
}


def in_training(
    model: RankingModel, values: dict[str, Any], before: list[np.ndarray]
) -> tuple[dict[str, np.ndarray], float, list[np.ndarray]]:
    """Logits, penalties, and the changed statistics, of a call from the same state."""
    for variable, value in zip(model.variables, before, strict=True):  # with the seeds
        variable.assign(value)
    logits = model(values, training=True)
    found = {task: keras.ops.convert_to_numpy(logit) for task, logit in logits.items()}
    return found, float(sum(model.losses)), [np.asarray(v) for v in model.non_trainable_variables]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("name", "options"), LISTED.values(), ids=list(LISTED))
def test_padding_of_lists_enters_nothing(name: str, options: dict[str, Any]) -> None:
    small: Any = SMALL[name]
    model = models.get(name)(SCHEMA, **{**small, **options})
    rng = np.random.default_rng(1)
    for weight in model.trainable_variables:
        weight.assign(weight + rng.normal(scale=0.3, size=weight.shape))
    before = [np.asarray(variable) for variable in model.variables]
    lengths = np.array([1, T, 1, 2, 1] * B)[:B]
    mask = np.arange(T) < lengths[:, None]
    shorter = {**inputs(), CANDIDATE_MASK: mask}
    other = inputs(2, candidates=T + PADDED)
    longer = dict(shorter)
    for feature in SCHEMA.features:
        if feature.side == "candidate":
            drawn = other[feature.name]
            drawn[:, :T][mask] = shorter[feature.name][mask]
            longer[feature.name] = drawn
    longer[CANDIDATE_MASK] = np.pad(mask, ((0, 0), (0, PADDED)))
    logits, penalty, state = in_training(model, shorter, before)
    others, same_penalty, same_state = in_training(model, longer, before)
    for task, logit in logits.items():
        np.testing.assert_allclose(others[task][:, :T][mask], logit[mask], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(same_penalty, penalty, rtol=1e-5)
    for found, expected in zip(same_state, state, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    if "disagreement" in options or "balance" in options.get("experts", {}):
        assert penalty > 0
