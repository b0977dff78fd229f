"""What every model promises, and what each is made of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.embeddings import CANDIDATE_MASK
from recsys_attn.id_transforms import Age
from recsys_attn.interactions import AutoInt
from recsys_attn.losses import CandidateCrossentropy
from recsys_attn.models.building_blocks import FieldInteraction
from recsys_attn.models.ranking import RankingModel
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

B, T, S = 5, 3, 7
SCHEMA = Schema(
    (
        Categorical("user", "context", size=11),
        Numeric("age", "context"),
        Categorical("item", size=13),
        Categorical("tags", multivalued=True, max_length=2, size=5),
        Numeric("price"),
        Sequence("items_seen", shares="item", history="seen", max_length=S, size=13),
        Sequence("how", history="seen", max_length=S, size=5),
        Sequence("ages", history="seen", max_length=S, dtype="int64", transform=Age()),
    ),
    (Task("click"), Task("buy", weight=0.5)),
)
EVENTS = ("items_seen", "how", "ages")
SMALL = {
    "autoint": {"width": 4, "num_layers": 2, "num_heads": 2, "head_dim": 3, "mlp_units": (5,)},
    "din": {
        "width": 4,
        "target_attention": {"class_name": "din", "config": {"units": [5, 3]}},
        "mlp_units": (7,),
    },
    "mmoe": {"width": 4, "num_experts": 3, "expert_units": (7, 5), "tower_units": (3,)},
    "attention_ranker": {
        "width": 4,
        "target_attention": {"class_name": "interest", "config": {"units": [5, 3]}},
        "num_layers": 2,
        "head_dim": 3,
        "num_experts": 3,
        "expert_units": (7, 5),
        "tower_units": (3,),
    },
    "han": {"width": 4, "units": 3, "max_sessions": 3, "max_events": 2, "mlp_units": (5,)},
    "dien": {"width": 4, "auxiliary_weight": 0.01, "mlp_units": (7,)},
    "bst": {"width": 4, "num_heads": 2, "head_dim": 3, "mlp_units": (7,), "dropout": 0.0},
    "dsin": {
        "width": 4,
        "max_sessions": 3,
        "max_events": 2,
        "num_heads": 2,
        "head_dim": 3,
        "units": 3,
        "mlp_units": (7,),
    },
    "mlp": {"width": 4, "units": (7, 5)},
    "logistic_regression": {},
    "ple": {"width": 4, "expert_units": (11, 7), "tower_units": (5,)},
    "esmm": {"width": 4, "tower_units": (5,)},
    "aitm": {"width": 4, "tower_units": (5,), "dropout": 0.0},
    "pepnet": {
        "domain": ("user",),
        "person": ("item", "age"),
        "width": 4,
        "tower_units": (5,),
        "gate_units": 3,
    },
    "stem": {"width": 4, "expert_units": (7,), "gate_units": (3,), "tower_units": ()},
    "fm": {"width": 4},
    "afm": {"width": 4, "units": 3},
    "wide_and_deep": {"width": 4, "mlp_units": (5,)},
    "deepfm": {"width": 4, "mlp_units": (5,), "norm": "batch", "dropout": 0.0},
    "xdeepfm": {"width": 4, "cin_units": (3, 2), "mlp_units": (5,), "dropout": 0.0},
    "dcn": {"width": 4, "mlp_units": (5,), "rank": 3, "cross_experts": 2},
    "destine": {"width": 4, "num_layers": 2, "num_heads": 2, "head_dim": 3, "mlp_units": (5,)},
    "eulernet": {"width": 4, "orders": (5, 3)},
    "fibinet": {"width": 4, "kind": "each", "mlp_units": (5,), "dropout": 0.0},
    "masknet": {"width": 4, "block_units": (5, 3), "mlp_units": (7,)},
    "finalmlp": {
        "width": 4,
        "first_units": (6,),
        "second_units": (10, 4),
        "num_heads": 2,
        "first_context": ("user",),
        "second_context": ("item", "price"),
        "gate_units": (3,),
    },
    "finalnet": {
        "width": 4,
        "first_units": (6, 4),
        "second_units": (10,),
        "field_gate": True,
    },
}
DIFFERENT = ("attention_ranker", "dien", "aitm", "eulernet", "finalnet")  # in their losses or terms
ORDERED = ("aitm", "esmm")  # no purchase without a click


@functools.cache
def make(name: str) -> RankingModel:
    return models.get(name)(SCHEMA, **SMALL[name])


def inputs(seed: int = 0, batch: int = B, candidates: int = T) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def ids(name: str, *shape: int) -> np.ndarray:
        return rng.integers(0, SCHEMA[name].size, shape).astype("int32")

    seen, how = ids("items_seen", batch, S), ids("how", batch, S)
    ages = 2 + np.cumsum(rng.choice([60, 7200], (batch, S)), axis=1)[:, ::-1]
    return {
        "user": ids("user", batch),
        "age": rng.normal(size=batch).astype("float32"),
        "item": ids("item", batch, candidates),
        "tags": ids("tags", batch, candidates, 2),
        "price": rng.normal(size=(batch, candidates)).astype("float32"),
        "items_seen": seen,
        "how": how,
        "ages": np.where((seen == 0) & (how == 0), 0, ages).astype("int32"),
    }


def scores(model: RankingModel, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    found = model.probabilities(values)
    return {task: keras.ops.convert_to_numpy(score) for task, score in found.items()}


def assert_same(found: dict[str, np.ndarray], expected: Any, **tolerance: Any) -> None:
    assert found.keys() == expected.keys()
    for task, value in expected.items():
        np.testing.assert_allclose(found[task], value, atol=1e-6, **tolerance)


@pytest.fixture(params=sorted(SMALL))
def model(request: pytest.FixtureRequest) -> RankingModel:
    """One model for all tests that only look at it; building takes the time."""
    return make(request.param)


def test_every_model_is_tried_here() -> None:
    assert set(SMALL) == set(models.MODELS)


def test_gives_a_probability_for_each_candidate_and_task(model: RankingModel) -> None:
    found = scores(model, inputs())
    assert {task: score.shape for task, score in found.items()} == {
        "click": (B, T),
        "buy": (B, T),
    }
    for score in found.values():
        assert ((score > 0) & (score < 1)).all()


def test_candidates_are_scored_one_by_one(model: RankingModel) -> None:
    values = inputs()
    together = scores(model, values)
    last = {
        name: array[:, -1:] if SCHEMA[name].side == "candidate" else array
        for name, array in values.items()
    }
    assert_same(scores(model, last), {task: score[:, -1:] for task, score in together.items()})


def test_requests_are_scored_one_by_one(model: RankingModel) -> None:
    values = inputs()
    together = scores(model, values)
    alone = scores(model, {name: array[1:2] for name, array in values.items()})
    assert_same(alone, {task: score[1:2] for task, score in together.items()})


def test_a_padded_candidate_changes_no_other_while_training(model: RankingModel) -> None:
    """Dice's statistics and the loss must not see it."""
    mask = np.ones((B, T), bool)
    mask[:, -1] = False
    results = []
    for seed in (1, 2):
        values = inputs() | {CANDIDATE_MASK: mask}
        values["item"][:, -1] = inputs(seed)["item"][:, -1]
        values["price"][:, -1] = 100 * seed
        logits = model(values, training=True)
        results.append({t: keras.ops.convert_to_numpy(v)[:, :-1] for t, v in logits.items()})
    assert_same(results[0], results[1])


def test_padding_of_a_history_changes_nothing(model: RankingModel) -> None:
    short = inputs()
    long = dict(short)
    for name in EVENTS:
        short[name][:, 4:] = 0
        long[name] = np.concatenate([short[name], np.zeros((B, 3), "int32")], axis=1)
    assert_same(scores(model, long), scores(model, short), rtol=1e-5)


@pytest.mark.parametrize("name", ["bst", "dien", "dsin"])
def test_missing_events_may_stand_anywhere(name: str) -> None:
    """At the end, at the beginning, or between the others: the rest keeps its order."""
    at_the_end, elsewhere = inputs(), inputs()
    for event in EVENTS:
        at_the_end[event][:, 4:] = 0
        for row in range(B):
            places = np.sort(np.random.default_rng(row).permutation(S)[:4])
            elsewhere[event][row] = 0
            elsewhere[event][row, places] = at_the_end[event][row, :4]
        elsewhere[event][0] = np.roll(at_the_end[event][0], S - 4)
    model = make(name)
    assert_same(scores(model, elsewhere), scores(model, at_the_end), rtol=1e-5)


def test_survives_saving(model: RankingModel, tmp_path: Path) -> None:
    expected = scores(model, inputs())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.schema == SCHEMA
    assert_same(scores(loaded, inputs()), expected)


@pytest.fixture
def set_policy() -> Iterator[Callable[[str], None]]:
    """Sets the global dtype policy, for the length of a test."""
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(SMALL))
def test_loaded_model_keeps_its_precision(
    name: str, tmp_path: Path, set_policy: Callable[[str], None]
) -> None:
    set_policy("mixed_bfloat16")
    model = models.get(name)(SCHEMA, **SMALL[name])
    rng = np.random.default_rng(1)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    expected = scores(model, inputs())
    model.save(tmp_path / "model.keras")
    set_policy("float32")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for task, score in scores(loaded, inputs()).items():
        np.testing.assert_array_equal(score, expected[task])


@pytest.mark.parametrize("name", ["din", "attention_ranker", "mmoe"])
def test_context_history_goes_with_padded_candidates(name: str) -> None:
    schema = Schema(
        (
            Categorical("place", "context", size=11),
            Categorical("item", size=13),
            Sequence("places", shares="place", history="been", max_length=S),
            Sequence("how", history="done", max_length=S, size=5),
        ),
        (Task("click"),),
    )
    model = models.get(name)(schema, **SMALL[name])
    rng = np.random.default_rng(0)
    values = {
        "place": rng.integers(0, 11, B).astype("int32"),
        "item": rng.integers(0, 13, (B, T)).astype("int32"),
        "places": rng.integers(0, 11, (B, S)).astype("int32"),
        "how": rng.integers(0, 5, (B, S)).astype("int32"),
    }
    mask = rng.random((B, T)) < 0.6
    mask[:, 0] = True
    padded = values | {CANDIDATE_MASK: mask}
    expected = scores(model, values)["click"]
    np.testing.assert_allclose(scores(model, padded)["click"][mask], expected[mask], atol=1e-6)
    eager = keras.backend.backend() == "tensorflow"  # JAX is slow without a graph
    model.compile("sgd", {"click": CandidateCrossentropy()}, run_eagerly=eager)
    np.testing.assert_allclose(
        model.predict(padded, batch_size=2, verbose=0)["click"][mask],
        keras.ops.convert_to_numpy(model(values)["click"])[mask],
        atol=1e-6,
    )
    labels = {"click": np.ones((B, T), "float32")}
    weights = {"click": mask.astype("float32")}
    history = model.fit(padded, labels, sample_weight=weights, batch_size=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in DIFFERENT else pytest.mark.thorough)
        for name in sorted(SMALL)
    ],
)
def test_learns(name: str) -> None:
    """A label that one item decides is fitted within a few steps."""
    model = models.get(name)(SCHEMA, **SMALL[name])
    values = inputs()
    label = (values["item"] % 2).astype("float32")
    labels = {"click": label, "buy": label if name in ORDERED else 1 - label}
    model.compile(
        keras.optimizers.Adam(0.05),
        loss={task: CandidateCrossentropy() for task in labels},
        loss_weights={task.name: task.weight for task in SCHEMA.tasks},
        jit_compile=keras.backend.backend() == "jax",  # without it JAX takes minutes
    )
    model.optimizer.build(model.trainable_variables)  # else a step is traced twice
    losses = [float(model.train_on_batch(values, labels)[0]) for _ in range(80)]
    assert losses[-1] < 0.25 * losses[0]


def test_a_schema_of_context_features_alone_has_one_candidate(
    request: pytest.FixtureRequest,
) -> None:
    schema = Schema((Categorical("user", "context", size=11),), (Task("click"),))
    found = scores(models.autoint(schema, width=4), {"user": np.arange(B)})
    assert found["click"].shape == (B, 1)


def test_logistic_regression_is_linear_in_its_fields() -> None:
    """Changing two fields changes the logit by the sum of what each changes alone."""
    model = make("logistic_regression")
    base = inputs()
    item = base | {"item": (base["item"] + 1) % 13}
    user = base | {"user": (base["user"] + 1) % 11}
    both = item | {"user": user["user"]}

    def logit(values: dict[str, np.ndarray]) -> np.ndarray:
        return keras.ops.convert_to_numpy(model(values)["click"])

    np.testing.assert_allclose(
        logit(both) - logit(base),
        (logit(item) - logit(base)) + (logit(user) - logit(base)),
        atol=1e-6,
    )


def test_destine_is_autoint_with_its_attention_and_without_relu() -> None:
    options = {**SMALL["destine"], "mechanism": "disentangled", "update": {"relu": "none"}}
    autoint = models.autoint(SCHEMA, **options)
    expected = scores(autoint, inputs())
    model = models.destine(SCHEMA, **SMALL["destine"])
    model(inputs())
    model.set_weights(autoint.get_weights())
    assert_same(scores(model, inputs()), expected)
    with pytest.raises(ValueError, match="`attention_dropout`"):
        models.destine(SCHEMA, dropout=0.1)


@pytest.mark.parametrize("name", ["bst", "dien", "din", "dsin"])
def test_missing_events_are_scored_as_none(name: str) -> None:
    """An empty history and a history of missing events give the same scores."""
    model = make(name)
    empty = inputs()
    empty |= {name: np.zeros((B, S), "int32") for name in EVENTS}
    none = {name: empty[name][:, :1] for name in EVENTS}
    assert_same(scores(model, empty | none), scores(model, empty))


def test_fit_trains_in_training_mode() -> None:
    """Dropout draws, and so moves its random state."""
    model = models.mlp(Schema((Categorical("item", size=7),), (Task("click"),)), dropout=0.5)
    model.compile("sgd", {"click": CandidateCrossentropy()}, jit_compile=False)
    states = [v for v in model.non_trainable_variables if "seed" in v.path]
    before = [keras.ops.convert_to_numpy(state).copy() for state in states]
    x, y = {"item": np.array([[2, 3, 4]])}, {"click": np.array([[0.0, 1.0, 0.0]])}
    model.fit(x, y, verbose=0)
    assert any(
        np.any(old != keras.ops.convert_to_numpy(new))
        for old, new in zip(before, states, strict=True)
    )


def test_one_gate_mixes_the_experts_alike_for_all_tasks() -> None:
    model = models.mmoe(SCHEMA, **{**SMALL["mmoe"], "one_gate": True})
    _, explanation = model.explain(inputs())
    gates = [keras.ops.convert_to_numpy(explanation[f"gate/{task}"]) for task in ("click", "buy")]
    np.testing.assert_array_equal(*gates)
    found = scores(model, inputs())
    assert np.abs(found["click"] - found["buy"]).max() > 1e-4  # of their towers


def test_errors() -> None:
    without = Schema(SCHEMA.features[:5], SCHEMA.tasks)
    with pytest.raises(ValueError, match="din needs a history"):
        models.din(without)
    with pytest.raises(ValueError, match="Did you mean 'autoint'"):
        models.get("autoin")
    mixed = Schema((*SCHEMA.features[:5], Categorical("brand", size=3, width=2)), SCHEMA.tasks)
    with pytest.raises(ValueError, match="Received: width=2 for the feature 'brand'"):
        models.autoint(mixed, width=4)
    models.mlp(mixed, width=4, units=(3,))
    fields = [np.ones((B, T, 2, width), "float32") for width in (2, 4)]
    with pytest.raises(ValueError, match=r"fields of one width. Received: widths \[2, 4\]"):
        FieldInteraction(AutoInt(1))(fields, [np.ones((B, T, 2), bool)] * 2)
