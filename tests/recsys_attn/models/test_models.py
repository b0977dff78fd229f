"""What every model promises, and what each is made of."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn import models
from recsys_attn.embeddings import CANDIDATE_MASK
from recsys_attn.interactions import AutoInt
from recsys_attn.losses import CandidateCrossentropy
from recsys_attn.models.building_blocks import FieldInteraction
from recsys_attn.models.ranking import RankingModel
from recsys_attn.schema import Categorical, Schema, Sequence, Task
from tests.support.small_models import (
    DIFFERENT,
    EVENTS,
    ORDERED,
    SCHEMA,
    SMALL,
    B,
    S,
    T,
    assert_same,
    inputs,
    make,
    scores,
)

# An encoder, a batch norm, Dice and sessions; `make thorough` has the others.
KINDS = ("attention_ranker", "deepfm", "din", "dsin")


@pytest.fixture(
    params=[
        pytest.param(name, marks=() if name in KINDS else pytest.mark.thorough)
        for name in sorted(SMALL)
    ]
)
def model(request: pytest.FixtureRequest) -> RankingModel:
    """One model for all tests that only look at it; building takes the time."""
    return make(request.param)


def test_every_model_is_tried_here() -> None:
    assert set(SMALL) == set(models.MODELS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(SMALL))
def test_gives_a_probability_for_each_candidate_and_task(name: str) -> None:
    found = scores(make(name), inputs())
    assert {task: score.shape for task, score in found.items()} == {
        "click": (B, T),
        "buy": (B, T),
    }
    for score in found.values():
        assert ((score > 0) & (score < 1)).all()


def test_every_part_is_built(model: RankingModel) -> None:
    assert [part.path for part in model._flatten_layers() if not part.built] == []


@pytest.mark.sampled(2)
def test_candidates_are_scored_one_by_one(model: RankingModel) -> None:
    values = inputs()
    together = scores(model, values)
    last = {
        name: array[:, -1:] if SCHEMA[name].side == "candidate" else array
        for name, array in values.items()
    }
    assert_same(scores(model, last), {task: score[:, -1:] for task, score in together.items()})


@pytest.mark.sampled(2)
def test_requests_are_scored_one_by_one(model: RankingModel) -> None:
    values = inputs()
    together = scores(model, values)
    alone = scores(model, {name: array[1:2] for name, array in values.items()})
    assert_same(alone, {task: score[1:2] for task, score in together.items()})


def test_features_that_change_no_score_are_unread(model: RankingModel) -> None:
    """The first row of a batch, then one row for each feature with another value of it."""
    first = {n: np.maximum(x, 2) if x.dtype == "int32" else x for n, x in inputs(1, 1).items()}
    other = {
        n: 50 * x if n == "ages" else x + 1 if x.dtype == "float32" else np.where(x > 2, x - 1, 3)
        for n, x in first.items()
    }
    rows = {
        n: np.concatenate([x, *(other[n] if each == n else x for each in first)])
        for n, x in first.items()
    }
    found = [ops.convert_to_numpy(logits) for logits in model(rows).values()]
    change = np.max([np.abs(logits[1:] - logits[0]).max(axis=1) for logits in found], axis=0)
    unread = [n for n, size in zip(first, change, strict=True) if size < 3e-6]  # of rounding
    assert list(model.unread) == unread


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(2)
def test_padding_of_a_history_changes_nothing(model: RankingModel) -> None:
    short = inputs()
    long = dict(short)
    for name in EVENTS:
        short[name][:, 4:] = 0
        long[name] = np.concatenate([short[name], np.zeros((B, 3), "int32")], axis=1)
    assert_same(scores(model, long), scores(model, short), rtol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["dsin", "bst", "dien"])
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["attention_ranker", "din", "mmoe"])
def test_padded_candidates_change_no_score_with_a_history_of_the_context(name: str) -> None:
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


@pytest.mark.sampled(2)
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
    table = {"name": "disentangled", "update": {"relu": "none"}}
    options = {**SMALL["destine"], "interaction": {**SMALL["destine"]["interaction"], **table}}
    autoint = models.autoint(SCHEMA, **options)
    expected = scores(autoint, inputs())
    model = models.destine(SCHEMA, **SMALL["destine"])
    model(inputs())
    model.set_weights(autoint.get_weights())
    assert_same(scores(model, inputs()), expected)
    with pytest.raises(ValueError, match="one in `interaction`"):
        models.destine(SCHEMA, dropout=0.1)


@pytest.mark.sampled(2)
def test_missing_events_score_as_an_empty_history(model: RankingModel) -> None:
    """A history without events gives the same scores as one of missing events."""
    empty = inputs()
    empty |= {name: np.zeros((B, S), "int32") for name in EVENTS}
    expected = scores(model, empty)
    for length in (0, 1):
        shorter = {name: empty[name][:, :length] for name in EVENTS}
        assert_same(scores(model, empty | shorter), expected, rtol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["dcn", "deepfm", "din", "fibinet", "han"])
def test_defaults_are_no_options_given(name: str) -> None:
    model = models.get(name)(SCHEMA, width=4, mlp_units=())
    assert scores(model, inputs())["click"].shape == (B, T)


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


def test_embedding_dropout_drops_fields_in_training_alone() -> None:
    fields, present = [np.ones((B, T, 5, 8), "float32")], [np.ones((B, T, 5), bool)]
    layer = FieldInteraction(embedding_dropout=0.5)
    dropped = keras.ops.convert_to_numpy(layer(fields, present, training=True))
    assert set(np.unique(dropped)) == {0.0, 2.0}
    np.testing.assert_array_equal(layer(fields, present, training=False), np.ones((B, T, 40)))


def test_invalid_request_is_an_error_in_json() -> None:
    without = Schema(SCHEMA.features[:5], SCHEMA.tasks)
    with pytest.raises(ValueError, match="din needs a history"):
        models.din(without)
    with pytest.raises(ValueError, match="Did you mean 'autoint'"):
        models.get("autoin")
    with pytest.raises(
        ValueError, match=r"use 'dcn' with `cross = { gated = true }`. Received: 'gdcn'"
    ):
        models.get("gdcn")
    mixed = Schema((*SCHEMA.features[:5], Categorical("brand", size=3, width=2)), SCHEMA.tasks)
    with pytest.raises(ValueError, match="Received: width=2 for the feature 'brand'"):
        models.autoint(mixed, width=4)
    models.mlp(mixed, width=4, units=(3,))
    fields = [np.ones((B, T, 2, width), "float32") for width in (2, 4)]
    with pytest.raises(ValueError, match=r"fields of one width. Received: widths \[2, 4\]"):
        FieldInteraction(AutoInt(1))(fields, [np.ones((B, T, 2), bool)] * 2)
