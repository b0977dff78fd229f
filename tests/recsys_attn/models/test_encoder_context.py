"""The option `encoder.context`: the encoder of a history knows features of the request."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.attention.patterns import Local, Prepended
from recsys_attn.models.ranking import RankingModel
from recsys_attn.schema import Categorical, Schema
from recsys_attn.serialization import serialize
from tests.recsys_attn.models.test_encoder_positions import DIN, HEADS, scores
from tests.support.arrays import assert_close
from tests.support.small_models import EVENTS, SCHEMA, inputs

FEATURES = ["user", "age"]
WAYS = ("norm", "film", "tokens", "keys")
TIMES = "time_intervals"


def untrained(how: str | None, **encoder: Any) -> RankingModel:
    context = None if how is None else {"features": FEATURES, "how": how}
    encoder = {"name": "transformer", "context": context, **HEADS, **encoder}
    return models.din(SCHEMA, **DIN, encoder=encoder)


@functools.cache
def model(how: str, positions: str | None = None) -> RankingModel:
    ranker = untrained(how, num_layers=2, positions=positions)
    rng = np.random.default_rng(1)
    for weight in ranker.trainable_variables:
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    return ranker


def interest(ranker: RankingModel, values: dict[str, np.ndarray]) -> np.ndarray:
    """The output of the history, which knows the request by its encoder alone."""
    found, _ = ranker.tower.interests(ranker.embedding(values))
    return keras.ops.convert_to_numpy(found["seen"])


def others(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {**values, "user": (values["user"] + 1) % 11, "age": values["age"] + 1}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", WAYS)
def test_the_encoder_knows_each_feature(how: str) -> None:
    values, ranker = inputs(), model(how)
    for name in FEATURES:
        changed = {**values, name: others(values)[name]}
        apart = np.abs(interest(ranker, changed) - interest(ranker, values)).max(axis=(1, 2))
        assert (apart > 1e-5).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("positions", [None, TIMES])
@pytest.mark.parametrize("how", WAYS)
def test_candidates_and_padding_change_nothing(how: str, positions: str | None) -> None:
    values, ranker = inputs(), model(how, positions)
    expected = scores(ranker, values)["click"]
    one = {n: v[:, :1] if n in ("item", "tags", "price") else v for n, v in values.items()}
    assert_close(scores(ranker, one)["click"], expected[:, :1])
    padded = {n: np.pad(v, ((0, 0), (2, 1))) if n in EVENTS else v for n, v in values.items()}
    assert_close(scores(ranker, padded)["click"], expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("positions", [None, TIMES])
@pytest.mark.parametrize("how", ["tokens", "keys"])
def test_a_missing_context_leaves_no_trace(how: str, positions: str | None) -> None:
    missing = {**inputs(), "user": np.zeros(5, "int32"), "age": np.full(5, np.nan, "float32")}
    ranker, plain = model(how, positions), untrained(None, num_layers=2, positions=positions)
    own = {w.path for w in ranker.weights if "context_heads" in w.path or w.name == "projection"}
    kept = [w for w in ranker.weights if w.path not in own]
    assert len(kept) < len(ranker.weights)
    plain.set_weights([keras.ops.convert_to_numpy(w) for w in kept])
    assert_close(interest(ranker, missing), interest(plain, missing))


@pytest.mark.parametrize("how", ["norm", "film"])
def test_a_new_condition_changes_nothing(how: str) -> None:
    ranker, values = untrained(how), inputs()
    assert_close(interest(ranker, others(values)), interest(ranker, values))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", WAYS)
def test_a_saved_model_keeps_its_context(how: str, tmp_path: Path) -> None:
    model(how).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(scores(loaded, inputs())["click"], scores(model(how), inputs())["click"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["film", "keys"])
def test_pruning_keeps_the_features_of_the_encoder(how: str) -> None:
    context = {"features": FEATURES, "how": how}
    gates: dict[str, Any] = dict.fromkeys(("fields", "encoder"), "hard_concrete")
    ranker = models.attention_ranker(
        SCHEMA,
        width=4,
        interaction={"head_dim": 4},
        encoder={"name": "transformer", "context": context},
        gates=gates,
    )
    rng = np.random.default_rng(2)
    for weight in ranker.trainable_variables:
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    gate = ranker.tower.field_gate
    for closed in (["user", "age"], ["user", "age", "seen"]):
        gate.gate.log_alpha.assign([-9.0 if name in closed else 9.0 for name in gate.kept])
        ranker.tower.histories["seen"].encoder.blocks[0].attention.heads.gate.log_alpha.assign(
            [9.0, -9.0]
        )
        smaller = models.prune(ranker)
        left = {feature.name for feature in smaller.schema.features}
        assert set(FEATURES) <= left if "seen" not in closed else not left & set(FEATURES)
        values = {name: inputs()[name] for name in left}
        assert_close(scores(smaller, values)["click"], scores(ranker, inputs())["click"])


def block(**config: Any) -> dict[str, Any]:
    return {"class_name": "block", "config": config}


WINDOW = {"class_name": "dense", "config": {"pattern": serialize(Local(2))}}
SEEN = {"class_name": "dense", "config": {"pattern": serialize(Prepended(2, Local(2)))}}
SEGMENTS = {"class_name": "segments", "config": {"segment": 2, "memory": 2}}


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("how", "encoder"),
    [
        *(("norm", each) for each in ("gru", "longformer", block(attention="rotary"))),
        *(("film", each) for each in ("gru", "reformer", SEGMENTS)),
        *(("tokens", each) for each in ("performer", "transformer_xl", SEEN)),
        *(("keys", each) for each in ("alibi", WINDOW, block(residual="reversible"))),
    ],
)
def test_an_encoder_with_a_context(how: str, encoder: Any) -> None:
    small = {"performer": {"features": 8}, "longformer": {"window": 2}, "reformer": {"size": 4}}
    if isinstance(encoder, str):
        encoder = {"class_name": encoder, "config": small.get(encoder, {})}
    ranker = untrained(how, name=encoder)
    rng = np.random.default_rng(1)
    for weight in ranker.trainable_variables:
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    values = inputs()
    assert np.abs(interest(ranker, others(values)) - interest(ranker, values)).max() > 1e-5


@pytest.mark.parametrize(
    ("how", "encoder", "message"),
    [
        ("keys", "gru", 'has no attention; or use how = "norm" or "film"'),
        ("tokens", "convolution", "has no attention"),
        ("keys", "longformer", "does not fit `encoder`. Routed cannot attend a context"),
        ("tokens", "longformer", "not every event sees the 2 tokens"),
        ("tokens", WINDOW, r"Prepended\(2"),
        ("tokens", "retention", "not every event sees"),
        ("keys", SEGMENTS, '"segments" takes no context'),
        ("norm", SEGMENTS, 'use how = "film"'),
        ("norm", block(norm="rms"), 'needs norm = "conditional"'),
        ("keys", block(norm="conditional"), "set `encoder.context`"),
        ("key", "transformer", "`encoder.context.how`.*Did you mean 'keys'"),
    ],
)
def test_a_context_that_an_encoder_cannot_have(how: str, encoder: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        untrained(how, name=encoder)


@pytest.mark.parametrize("name", ["item", "items_seen", "scenario"])
def test_only_features_of_the_request_are_a_context(name: str) -> None:
    with pytest.raises(ValueError, match=f"`encoder.context.features` are .*'{name}'"):
        untrained(None, context={"features": [name], "how": "norm"})


def test_keys_have_one_width() -> None:
    wide = Categorical("city", "context", size=7, width=6)
    schema = Schema((*SCHEMA.features, wide), SCHEMA.tasks)
    context = {"features": ["user", "city"], "how": "keys"}
    with pytest.raises(ValueError, match="needs features of one `width`"):
        models.din(schema, encoder={"name": "transformer", "context": context}, **DIN)
    values = {**inputs(), "city": np.ones(5, "int32")}
    ranker = models.din(
        schema, encoder={"name": "transformer", "context": {**context, "how": "norm"}}
    )
    assert ranker(values)["click"].shape == (5, 3)
