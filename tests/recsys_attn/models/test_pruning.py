"""A model without what its gates closed scores as before, and closed fields are missing values."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.attention import HeadsCall
from recsys_attn.models import RankingModel, prune
from recsys_attn.models.attention_places import AttentionPlace, head_layers, watch_attention
from recsys_attn.models.pruning import Kept, gate_counts, head_counts
from recsys_attn.schema import Categorical, Schema, Task
from tests.support.small_models import SCHEMA, SMALL, inputs, scores

NARROW = Schema(
    tuple(
        replace(feature, table_width=3) if feature.name in ("user", "item", "how") else feature
        for feature in SCHEMA.features
    ),
    SCHEMA.tasks,
)
HEADS = {"name": "transformer", "num_heads": 3}
ENCODER = {"name": "transformer", "num_layers": 2}
GATED: dict[str, dict[str, Any]] = {
    "autoint": {},
    "destine": {},
    "mmoe": {"gate": "both"},
    "din": {"encoder": ENCODER, "target_attention": HEADS},
    "attention_ranker": {
        "encoder": {**ENCODER, "positions": "time_buckets"},
        "target_attention": HEADS,
    },
}
HARD = {"class_name": "hard_concrete", "config": {"penalty": 0.01, "initial": 0.4}}
PADDED = {**inputs(), "candidate_mask": np.arange(3) < np.array([1, 2, 3, 3, 2])[:, None]}


@functools.cache
def gated(name: str) -> RankingModel:
    schema = NARROW if name == "din" else SCHEMA
    return models.get(name)(schema, **{**SMALL[name], **GATED[name]}, gates=HARD)


def with_gates(name: str, seed: int) -> RankingModel:
    """Random weights; a third of the gates is closed, a third open, and a third between."""
    model, rng = gated(name), np.random.default_rng(seed)
    for weight in model.weights:
        value = rng.normal(size=weight.shape) / 2
        if weight.name == "log_alpha":
            value = rng.choice([9.0, -9.0, 0.4], size=weight.shape)
        weight.assign(np.abs(value) if "variance" in weight.name else value)
    model.calibrate({"buy": (1.3, -0.2)})
    return model


def close_fields(model: RankingModel, *names: str) -> None:
    gate = model.tower.field_gate
    gate.gate.log_alpha.assign([-9.0 if name in names else 9.0 for name in gate.kept])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "seed"),
    [("destine", 1), *itertools.product(sorted(GATED.keys() - {"destine"}), [1, 3])],
)
def test_pruned_model_scores_as_the_gated_one(name: str, seed: int, tmp_path: Path) -> None:
    model = with_gates(name, seed)
    expected, counts = scores(model, PADDED), gate_counts(model)
    smaller = prune(model)
    assert np.ptp(expected["click"]) > 1e-4
    assert smaller.count_params() < model.count_params()
    smaller.save(tmp_path / "model.keras")
    for each in (smaller, keras.saving.load_model(tmp_path / "model.keras")):
        found = scores(each, PADDED)
        for task, score in expected.items():
            np.testing.assert_allclose(found[task], score, rtol=0, atol=1e-6)
        kept = {place: (count.kept, count.kept) for place, count in counts.items() if count.kept}
        assert gate_counts(each) == kept


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", GATED)
def test_gates_that_are_left_are_constants(name: str) -> None:
    smaller = prune(with_gates(name, 3))
    assert not [weight for weight in smaller.trainable_weights if weight.name == "log_alpha"]
    assert smaller.losses == []
    again = prune(smaller)
    assert again.count_params() == smaller.count_params()
    gate = smaller.tower.field_gate.gate
    np.testing.assert_array_equal(gate.gates(training=True), gate.gates())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", GATED)
def test_a_closed_feature_counts_as_missing(name: str) -> None:
    model = with_gates(name, 1)
    close_fields(model)
    missing = {"age": np.full(5, np.nan, "float32"), "tags": np.zeros((5, 3, 2), "int32")}
    expected = scores(model, {**PADDED, **missing})
    assert np.abs(expected["buy"] - scores(model, PADDED)["buy"]).max() > 1e-5
    close_fields(model, *missing)
    for task, score in scores(model, PADDED).items():
        np.testing.assert_allclose(score, expected[task], rtol=0, atol=1e-6)


def test_a_closed_history_takes_its_attention_with_it() -> None:
    model = with_gates("attention_ranker", 1)
    close_fields(model, "seen", "user")
    smaller = prune(model)
    assert smaller.tower.histories == {}
    assert [f.name for f in smaller.schema.features] == ["age", "item", "tags", "price"]
    assert gate_counts(model)["heads of encoders"] == Kept(0, 4)


def test_a_closed_feature_stays_as_the_query_of_a_history() -> None:
    model = with_gates("din", 1)
    close_fields(model, "item", "age")
    smaller = prune(model)
    assert smaller.schema.features == tuple(f for f in NARROW.features if f.name != "age")
    assert smaller.tower.field_gate.unused == ("item",)


def test_one_feature_of_the_candidates_stays() -> None:
    model = with_gates("mmoe", 1)
    close_fields(model, *model.tower.field_gate.kept)
    chances = [-9.0, -8.0, -9.0, -5.0, -9.0, -9.0]  # item, tags, price, user, age, seen
    model.tower.field_gate.gate.log_alpha.assign(chances)
    smaller = prune(model)
    assert [f.name for f in smaller.schema.features] == ["tags"]
    assert scores(smaller, PADDED)["click"].shape == (5, 3)


def test_penalty_is_that_of_the_open_gates_of_all_places() -> None:
    model = gated("attention_ranker")
    chances = [w for w in model.weights if w.name == "log_alpha"]
    for weight in chances:
        weight.assign(np.full(weight.shape, 0.7))
    gates = sum(weight.shape[0] for weight in chances)
    assert gates == sum(count.all for count in gate_counts(model).values())
    assert float(sum(model.losses)) == pytest.approx(0.01 * gates * 0.9088, rel=1e-4)


def test_experts_whose_places_matter_are_not_pruned() -> None:
    experts = {"number": 3, "units": (3,), "gate_attention": "alibi"}
    options = {"gate": "attention", "gates": {"experts": HARD}}
    model = models.mmoe(SCHEMA, width=4, experts=experts, **options)
    model.tower.head.experts.experts.gate.log_alpha.assign([9.0, -9.0, 9.0])
    with pytest.raises(ValueError, match="depends on the places of its keys"):
        prune(model)


def test_fields_whose_places_matter_are_not_pruned() -> None:
    layer = {"name": "alibi", "num_layers": 1, "num_heads": 2, "head_dim": 3}
    model = models.autoint(SCHEMA, width=4, gates={"fields": HARD}, interaction=layer)
    close_fields(model, "age")
    with pytest.raises(ValueError, match="attention of the fields depends on the places"):
        prune(model)


OTHERS = [pytest.param(name, marks=pytest.mark.thorough) for name in ("autoint", "din")]


@pytest.mark.parametrize("name", ["attention_ranker", *OTHERS])
def test_kept_heads_score_as_the_others_at_zero(name: str) -> None:
    model = models.get(name)(NARROW, **{**SMALL[name], **GATED[name]})
    rng = np.random.default_rng(1)
    for weight in model.weights:
        value = rng.normal(size=weight.shape) / 2
        weight.assign(np.abs(value) if "variance" in weight.name else value)
    layers = head_layers(model)
    keep = {place: [layer.computed_heads - 1] for place, layer in layers.items()}

    def visit(place: AttentionPlace, call: HeadsCall) -> HeadsCall:
        kept = np.isin(np.arange(call.output.shape[2]), keep.get(place, [0, 1, 2]))
        return call._replace(output=call.output * kept.astype("float32")[:, None])

    before = scores(model, PADDED)
    with watch_attention(model, visit):
        expected = model.probabilities(PADDED)
    smaller = prune(model, keep)
    assert [layer.computed_heads for layer in head_layers(smaller).values()] == []
    found = scores(smaller, PADDED)
    mask = PADDED["candidate_mask"]
    for task, score in found.items():
        one = keras.ops.convert_to_numpy(expected[task])
        assert np.abs(score - before[task])[mask].max() > 1e-4
        np.testing.assert_allclose(score[mask], one[mask], rtol=0, atol=1e-6)
    counts = head_counts(model, keep).values()
    assert sum(count.kept for count in counts) == len(layers)
    assert sum(count.all for count in counts) == sum(x.computed_heads for x in layers.values())


def test_heads_to_keep_are_of_places_without_gates() -> None:
    target = AttentionPlace("target_attention", "seen")
    with pytest.raises(ValueError, match="gates of this one say what it needs"):
        prune(gated("autoint"), {AttentionPlace("interaction"): [0]})
    with pytest.raises(ValueError, match=r"places with several heads: interaction 1, .*target att"):
        prune(models.autoint(SCHEMA, **SMALL["autoint"]), {target: [0]})


def test_a_model_without_gates_is_not_pruned() -> None:
    schema = Schema((Categorical("item", size=7),), (Task("click"),))
    with pytest.raises(ValueError, match="has no Hard-Concrete gates"):
        prune(models.mlp(schema, units=(3,)))


BAD_OPTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("mmoe", {"gates": {"expert": "hard_concrete"}}, "table by place.*Did you mean 'experts'"),
    ("mmoe", {"gates": {"interaction": "hard_concrete"}}, "`gates.interaction`: this model has no"),
    ("din", {"gates": {"encoder": HARD}}, "`gates.encoder` has no effect without `encoder`"),
    (
        "din",
        {"gates": {"target_attention": HARD}},
        "without `target_attention.num_heads`; give both",
    ),
    ("din", {"disagreement": {"outputs": 0.1}}, "`disagreement` has no effect"),
    ("mmoe", {"disagreement": {"positions": 0.1}}, "give the factor `outputs` alone"),
    ("din", {"encoder": "gru", "gates": HARD}, "'gru' has no heads, so `gate`"),
]


@pytest.mark.parametrize(("name", "options", "message"), BAD_OPTIONS)
def test_a_gate_without_its_place_is_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        models.get(name)(SCHEMA, **SMALL[name], **options)


def test_experts_and_fields_take_gates_that_close() -> None:
    with pytest.raises(TypeError, match=r"`gates.experts` must be a HardConcrete"):
        models.mmoe(SCHEMA, **SMALL["mmoe"], gates={"experts": "output"})


def test_disagreement_stands_in_every_place() -> None:
    options = {**SMALL["attention_ranker"], **GATED["attention_ranker"]}
    everywhere = models.attention_ranker(SCHEMA, **options, disagreement={"outputs": 0.1})
    one = models.attention_ranker(
        SCHEMA, **options, disagreement={"encoder": {"positions": 0.1, "outputs": 0.2}}
    )
    # Two blocks, target attention, two interacting layers and the experts; two factors, two blocks.
    for model, count in ((everywhere, 6), (one, 4)):
        model(PADDED, training=True)
        assert len(model.losses) == count
