"""The slot `encoder.positions` of models: an encoder knows the order, unless it says otherwise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.attention import watch_heads
from recsys_attn.attention.patterns import Causal, Local
from recsys_attn.attention.positions import POSITIONS
from recsys_attn.models.ranking import RankingModel
from tests.support.arrays import assert_close
from tests.support.small_models import EVENTS, SCHEMA, S, inputs

DIN: dict[str, Any] = {"width": 4, "mlp_units": (5,)}
HEADS = {"num_heads": 2, "head_dim": 4}


def model(encoder: Any, positions: Any, **more: Any) -> RankingModel:
    table = {"name": encoder, "positions": positions, **HEADS, **more}
    ranker = models.din(SCHEMA, encoder=table, **DIN)
    ranker(inputs())
    rng = np.random.default_rng(1)
    for weight in ranker.trainable_variables:  # small: no score must be saturated
        weight.assign(rng.normal(scale=0.3, size=weight.shape))
    return ranker


def scores(ranker: RankingModel, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Logits by task, which differ where rounded probabilities may not."""
    return {task: keras.ops.convert_to_numpy(x) for task, x in ranker(values).items()}


def changed_by_a_reversal(ranker: RankingModel) -> bool:
    """Whether other scores follow from the same events in the opposite order."""
    values = inputs()
    values |= {name: np.where(values[name] == 0, 1, values[name]) for name in EVENTS}
    turned = {**values, **{name: values[name][:, ::-1] for name in EVENTS}}
    first, second = scores(ranker, values), scores(ranker, turned)
    return max(float(np.abs(first[task] - second[task]).max()) for task in first) > 1e-4


TISASREC = {"class_name": "time_intervals", "config": {"max_interval": 5, "values": True}}
HSTU = {"class_name": "time_buckets", "config": {"place_distances": S}}
EVERY: list[Any] = [*POSITIONS.members, TISASREC, HSTU]
CAUSAL = {"class_name": "additive", "config": {"pattern": "causal"}}
# ALiBi's distances are equal in both directions: with it alone a reversal changes nothing.
ORDERED: list[tuple[Any, Any]] = [
    (None, "transformer"),
    (None, "performer"),
    (None, "t5"),
    ("alibi", CAUSAL),
]
ORDERED += [({"class_name": "coordinates", "config": {"gaps": True}}, "transformer")]
ORDERED += [(TISASREC, "transformer"), (HSTU, "transformer")]
ORDERED += [(name, "transformer") for name in POSITIONS.members if name not in ("none", "alibi")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("positions", "encoder"),
    [*ORDERED[:4], *(pytest.param(*each, marks=pytest.mark.thorough) for each in ORDERED[4:])],
)
def test_the_order_of_events_matters(positions: Any, encoder: Any) -> None:
    assert changed_by_a_reversal(model(encoder, positions))


@pytest.mark.parametrize("encoder", ["transformer", "performer"])
def test_without_positions_the_order_changes_nothing(encoder: str) -> None:
    assert not changed_by_a_reversal(model(encoder, "none"))


@pytest.mark.thorough
@pytest.mark.parametrize("positions", EVERY, ids=str)
def test_missing_events_shift_no_position(positions: str) -> None:
    ranker = model("transformer", positions)
    values = inputs()
    events = {name: np.where(values[name] == 0, 1, values[name])[:, :4] for name in EVENTS}
    expected = scores(ranker, {**values, **events})
    for places in ([0, 1, 2, 3], [3, 4, 5, 6], [0, 2, 3, 6]):
        spaced = {name: np.zeros((len(events[name]), S), "int32") for name in EVENTS}
        for name in EVENTS:
            spaced[name][:, places] = events[name]
        for task, score in scores(ranker, {**values, **spaced}).items():
            assert_close(score, expected[task])


@pytest.mark.thorough
@pytest.mark.parametrize("positions", EVERY, ids=str)
def test_a_saved_model_keeps_its_positions(positions: str, tmp_path: Path) -> None:
    ranker = model("transformer", positions, num_layers=2)
    ranker.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected = scores(ranker, inputs())
    for task, score in scores(loaded, inputs()).items():
        np.testing.assert_allclose(score, expected[task], rtol=1e-5, atol=1e-6)


BLOCK = {"class_name": "block", "config": {"norm": "rms"}}
GRU_BLOCK = {"class_name": "block", "config": {"attention": "gru"}}
FNET = {"class_name": "fnet", "config": {"length": S}}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("encoder", "positions", "is_learned"),
    [
        (BLOCK, None, True),
        (BLOCK, "rotary", False),
        ("gru", None, False),
        (GRU_BLOCK, None, False),
        ("gru", "sinusoidal", False),
        (FNET, None, True),
    ],
)
def test_blocks_and_mixers_know_the_order(encoder: Any, positions: Any, is_learned: bool) -> None:
    ranker = model(encoder, positions)
    assert changed_by_a_reversal(ranker)
    assert any("learned_positions" in weight.path for weight in ranker.weights) == is_learned


@pytest.mark.parametrize(
    ("encoder", "positions", "message"),
    [
        ("gru", "rotary", "RotaryPositions is a part of the score of attention, which it does not"),
        (GRU_BLOCK, "none", "knows the order of the events by itself: leave the positions out"),
        ({"class_name": "block", "config": {"attention": "t5"}}, "alibi", "count them twice"),
    ],
)
def test_positions_that_an_encoder_cannot_have(encoder: Any, positions: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"`encoder.positions` does not fit.*{message}"):
        model(encoder, positions)


LOCAL = {"class_name": "local_m", "config": {"width": 2}}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("positions", ["time_buckets", TISASREC], ids=str)
@pytest.mark.parametrize(("encoder", "pattern"), [(LOCAL, Local(2)), (CAUSAL, Causal())])
def test_an_encoder_by_time_attends_by_place(encoder: Any, positions: Any, pattern: Any) -> None:
    """For ages that are equal or days apart."""
    ranker, values = model(encoder, positions), inputs()
    values |= {name: np.where(values[name] == 0, 1, values[name]) for name in EVENTS}
    values["ages"][:] = np.array([9, 9, 5, 2, 2, 2, 0]) * 86_400 + 3
    seen = []
    with watch_heads(lambda call: seen.append(call.weights) or call):
        ranker(values)
    expected = np.broadcast_to(pattern.matrix(S), seen[0].shape)
    np.testing.assert_array_equal(np.asarray(seen[0]) > 0, expected)


def test_a_score_of_times_is_a_position_of_the_encoder() -> None:
    by_hand = {"class_name": "dense", "config": {"score": {"class_name": "time_buckets"}}}
    with pytest.raises(ValueError, match="`encoder` has a score of times"):
        model(by_hand, None)


def test_learned_positions_are_as_many_as_events() -> None:
    weights = model("transformer", None).weights
    tables = [weight for weight in weights if "learned_positions" in weight.path]
    assert [tuple(table.shape) for table in tables] == [(S, 8)]


@pytest.mark.thorough
def test_blocks_may_share_the_biases_of_transformer_xl(tmp_path: Path) -> None:
    shared, own = (
        model(
            "transformer",
            {"class_name": "transformer_xl", "config": {"share_biases": share}},
            num_layers=2,
        )
        for share in (True, False)
    )
    found = [
        re.search(r"/(dot|relative_dot)\w*/(query|position)_bias$", w.path) for w in own.weights
    ]
    kinds = [match and match[1] for match in found]
    assert kinds.count("dot") == kinds.count("relative_dot") == 2
    values = iter(shared.get_weights())
    biases: dict[str, Any] = {}
    copied = []
    for kind in kinds:
        copied.append(biases[kind] if kind in biases else next(values))
        if kind:
            biases[kind] = copied[-1]
    own.set_weights(copied)
    assert next(values, None) is None
    expected = scores(own, inputs())
    shared.save(tmp_path / "model.keras")
    for ranker in (shared, keras.saving.load_model(tmp_path / "model.keras")):
        for task, score in scores(ranker, inputs()).items():
            np.testing.assert_allclose(score, expected[task], rtol=1e-5, atol=1e-6)


WRONG = [
    ({"name": "t5", "positions": "rotary"}, "`encoder.positions` .* twice"),
    ({"name": "t5", "positions": "none"}, "'none' contradict"),
    ({"name": "gru", "positions": "learnt"}, "`encoder.positions`: .*Did you mean 'learned'"),
]


@pytest.mark.parametrize(("encoder", "message"), WRONG)
def test_wrong_positions_are_one_error(encoder: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        models.din(SCHEMA, encoder=encoder)
