"""What a model says its candidates looked at, and how its gates weighed."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.attention import HeadsCall, watch_heads
from recsys_attn.blocks import GateUnit, SqueezeExcitation
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.interactions import ContextGate
from recsys_attn.interactions.target_attention import TargetAttention
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.histories import InterestHistory, MeanHistory
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.tower import Tower
from recsys_attn.multitask.mmoe import MMoE
from recsys_attn.schema import Categorical, Schema, Sequence, Task

B, T, S, R = 3, 5, 7, 2
LENGTHS = {"items_seen": S, "how": S, "words": R}
SCHEMA = Schema(
    (
        Categorical("item", size=13),
        Sequence("items_seen", shares="item", history="seen", max_length=S, size=13),
        Sequence("how", history="seen", max_length=S, size=5),
        Sequence("words", history="searched", max_length=R, size=11),  # shares no table
    ),
    (Task("click"), Task("buy")),
)
PAIRS = list(itertools.combinations(range(4), 2))
SEEN, SEARCHED = "attention/seen", "attention/searched"
GATES = {"gate/click": (B, T, 4), "gate/buy": (B, T, 4)}
FIELDS = dict.fromkeys(
    ("field/item", "field/seen.items_seen", "field/seen.how", "field/searched.words"), (B, T)
)
STRENGTHS = dict.fromkeys(("field/seen.3", "field/searched.2"), (B, T))
ATTENTION = {SEEN: (B, T, S), SEARCHED: (B, T, R)}
UNIT = {"class_name": "din", "config": {"units": [5]}}
ONE_BUCKET = {"class_name": "reformer", "config": {"size": S, "buckets": 1}}
SMALL_DIN = {"width": 4, "target_attention": UNIT, "mlp_units": (7,)}
SMALL_RANKER = {
    "width": 4,
    "interaction": {"num_layers": 1, "head_dim": 3},
    "experts": {"units": (7,)},
}
LAYERS = {"num_layers": 2, "num_heads": 3, "head_dim": 5}
SMALL_MMOE = {"width": 4, "experts": {"number": 4, "units": (7,)}}
SMALL_STEM: dict[str, Any] = {"width": 4, "experts": {"units": (7,), "gate_units": (3,)}}
SMALL_FINAL = {"width": 4, "first_units": (7,), "second_units": (5,)}
SMALL_PEPNET = {"width": 4, "tower_units": (7,), "gate_units": 3}
CASES = [
    ("din", SMALL_DIN, ATTENTION),
    ("din", {**SMALL_DIN, "encoder": {"name": "transformer", "head_dim": 3}}, ATTENTION),
    ("din", {**SMALL_DIN, "target_attention": "linear_transformer"}, {}),
    ("din", {**SMALL_DIN, "target_attention": ONE_BUCKET, "encoder": "local"}, ATTENTION),
    ("dien", {"width": 4, "mlp_units": (7,)}, ATTENTION),
    ("bst", {"width": 4, "num_heads": 2, "head_dim": 3, "mlp_units": (7,)}, ATTENTION),
    ("attention_ranker", SMALL_RANKER, ATTENTION | GATES | FIELDS | STRENGTHS),
    (
        "attention_ranker",
        {**SMALL_RANKER, "target_attention": "linear_transformer"},
        GATES | FIELDS,
    ),
    (
        "attention_ranker",
        {**SMALL_RANKER, "experts": {"units": (7,), "gate_attention": "linear_transformer"}},
        ATTENTION | FIELDS | STRENGTHS,
    ),
    ("mmoe", SMALL_MMOE, GATES),
    ("mmoe", {**SMALL_MMOE, "gate": "both"}, GATES),
    ("aitm", {"tower_units": (7,)}, dict.fromkeys(GATES, (B, T, 2))),
    ("stem", {**SMALL_STEM, "experts": {**SMALL_STEM["experts"], "shared": 2}}, GATES),
    ("mlp", {"width": 4, "units": (7,)}, {}),
    ("autoint", {"width": 4, "interaction": {"num_layers": 1, "head_dim": 3}}, FIELDS),
    ("autoint", {"width": 4, "interaction": "linear_transformer"}, {}),
    ("afm", {"width": 4, "units": 3}, FIELDS),
    ("fibinet", {"width": 4, "mlp_units": (7,)}, FIELDS),
    ("fibinet", {"width": 4, "mlp_units": (7,), "shared_matrices": True}, FIELDS),
    ("finalmlp", SMALL_FINAL, FIELDS),
    ("finalmlp", {**SMALL_FINAL, "feature_gates": {"active": False}}, {}),
    ("pepnet", {**SMALL_PEPNET, "domain": ["item"]}, FIELDS),
    ("pepnet", {**SMALL_PEPNET, "person": ["item"]}, {}),
    ("logistic_regression", {}, {}),
]


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    values = {
        feature.name: rng.integers(2, feature.size, (B, LENGTHS.get(feature.name, T)))
        for feature in SCHEMA.features
    }
    values["items_seen"][0, 4:] = values["how"][0, 4:] = 0  # padding
    values["how"][1, 2] = 0  # an event of which one value is missing
    values["items_seen"][2] = values["how"][2] = 0  # no event
    return {name: array.astype("int32") for name, array in values.items()}


def randomised(model: RankingModel) -> Any:
    rng = np.random.default_rng(1)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


def arrays(tensors: Any) -> dict[str, np.ndarray]:
    return {name: keras.ops.convert_to_numpy(tensor) for name, tensor in tensors.items()}


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("name", "options", "expected"), CASES)
def test_a_model_explains_what_has_weights(
    name: str, options: dict[str, Any], expected: Any
) -> None:
    """Beside the probabilities of a plain call, and with zeros where nothing happened."""
    model = randomised(models.get(name)(SCHEMA, **options))
    probabilities, explanation = model.explain(inputs())
    for task, scores in arrays(model.probabilities(inputs())).items():
        np.testing.assert_allclose(probabilities[task], scores, rtol=0, atol=1e-6)
    found = arrays(explanation)
    assert model.explanations == tuple(found)
    assert {name: weights.shape for name, weights in found.items()} == expected
    for name, weights in found.items():
        assert weights.dtype == "float32"
        if name.startswith("gate/"):
            np.testing.assert_allclose(weights.sum(-1), 1, rtol=0, atol=1e-6)
            assert np.ptp(weights) > 0
    if SEEN in found:
        happened = np.broadcast_to((inputs()["items_seen"] != 0)[:, None], (B, T, S))
        np.testing.assert_array_equal(found[SEEN] != 0, happened)
        assert np.ptp(found[SEEN][0], axis=0)[:4].min() > 0  # candidates look at other things
        np.testing.assert_array_equal(np.ptp(found[SEARCHED], axis=1), 0)  # as one


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("autoint", {"width": 4, "interaction": LAYERS}),
        ("destine", {"width": 4, "interaction": LAYERS}),
        ("afm", {"width": 4, "units": 3}),
    ],
)
def test_the_weight_of_a_field_is_the_mean_that_it_receives(
    name: str, options: dict[str, Any]
) -> None:
    model = randomised(models.get(name)(SCHEMA, **options))
    calls: list[HeadsCall] = []

    def visit(call: HeadsCall) -> HeadsCall:
        calls.append(call)
        return call

    with watch_heads(visit):
        found = arrays(model.explain(inputs())[1])
    empty = [name for name in found if name.startswith("field/seen.")]
    assert len(calls) == options.get("interaction", {}).get("num_layers", 1)
    assert len(empty) == 2
    names = list(found)
    for row in range(B * T):
        missing = [names.index(name) for name in empty] if row // T == 2 else []
        expected = np.zeros(len(names))
        for call in calls:
            of_heads = keras.ops.convert_to_numpy(call.weights)[row]
            for weights in of_heads:
                if name == "afm":
                    for weight, pair in zip(weights[0], PAIRS, strict=True):
                        expected[list(pair)] += weight / 2 / len(of_heads) / len(calls)
                    continue
                there = [field for field in range(len(names)) if field not in missing]
                expected += weights[there].mean(axis=0) / len(of_heads) / len(calls)
        received = [found[name].ravel()[row] for name in names]
        np.testing.assert_allclose(received, expected, rtol=0, atol=1e-6)
        assert np.ptp(received) > 1e-3
        assert not np.any(np.array(received)[missing])
        assert name == "destine" or sum(received) == pytest.approx(1, abs=1e-5)


def recording(call: Any, ratios: list[np.ndarray]) -> Any:
    """The call of a layer, with the mean of output by input of each field."""

    @functools.wraps(call)
    def recorded(layer: Any, inputs: Any, *args: Any, **named: Any) -> Any:
        output = call(layer, inputs, *args, **named)
        x = keras.ops.convert_to_numpy(inputs)
        ratio = keras.ops.convert_to_numpy(output) / np.where(x == 0, 1, x)
        ratios.append(ratio.reshape(B, T, 4, -1).mean(axis=-1))
        return output

    return recorded


@pytest.mark.parametrize(
    ("name", "options", "kinds"),
    [
        ("fibinet", {"mlp_units": (7,)}, (SqueezeExcitation,)),
        (
            "finalmlp",
            {**SMALL_FINAL, "feature_gates": {"first": ["item"]}},
            (ContextGate, ContextGate),
        ),
        ("pepnet", {**SMALL_PEPNET, "domain": ["item"]}, (GateUnit,)),
    ],
)
def test_the_weight_of_a_field_is_the_mean_factor_of_its_channels(
    name: str, options: dict[str, Any], kinds: tuple[type, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output by input of the layers that scale the fields, and 0 for a missing one."""
    model = randomised(models.get(name)(SCHEMA, **options))
    ratios: list[np.ndarray] = []
    for kind in set(kinds):
        monkeypatch.setattr(kind, "call", recording(kind.call, ratios))
    found = arrays(model.explain(inputs())[1])
    received = np.stack(list(found.values()), axis=-1)
    assert list(found) == list(FIELDS)
    assert len(ratios) == len(kinds)
    there = np.ones((B, T, 4), bool)
    there[2, :, 1:3] = False  # no event of the two sequences
    expected = np.mean(ratios, axis=0)
    np.testing.assert_allclose(received[there], expected[there], rtol=1e-4, atol=1e-5)
    assert not received[~there].any()
    assert np.ptp(received) > 1e-2


def test_fields_of_several_widths_keep_their_names() -> None:
    """The gate of PEPNet is of all fields, those of one width side by side."""
    features = (
        Categorical("wide", size=5, width=6),
        Categorical("narrow", size=5, width=2),
        Categorical("other", "context", size=5, width=6),
        Sequence("first", shares="wide", history="seen", max_length=2),
        Sequence("second", shares="narrow", history="seen", max_length=2),
    )
    model = models.pepnet(Schema(features, (Task("click"),)), domain=["other"], tower_units=(3,))
    given = {"wide": np.full((2, 3), 2), "narrow": np.full((2, 3), 3), "other": np.array([2, 0])}
    given |= {"first": np.array([[2, 3], [0, 0]]), "second": np.array([[3, 0], [0, 0]])}
    model(given)
    gate = model.tower.interaction.gate.factors
    gate.kernel.assign(np.zeros(gate.kernel.shape))
    # By width, the candidates first; the history is one wide field.
    gate.bias.assign(np.repeat([-1.0, 0.0, 1.0, 2.0], [2, 6, 6, 8]))
    found = arrays(model.explain(given)[1])
    factors = {"narrow": -1.0, "wide": 0.0, "other": 1.0, "seen.first+second": 2.0}
    assert found.keys() == {f"field/{name}" for name in factors}
    for name, logit in factors.items():
        known = given[name.removeprefix("seen.").removesuffix("+second")].reshape(2, -1) != 0
        known = known.any(axis=1, keepdims=True)
        wanted = np.broadcast_to(2 / (1 + np.exp(-logit)) * known, (2, 3))
        np.testing.assert_allclose(found[f"field/{name}"], wanted, rtol=1e-5)


def tower(attention: Any, experts: Any = None) -> RankingModel:
    histories = {"seen": attention, "searched": MeanHistory()}
    head = TaskHeads(["click", "buy"], experts=experts)
    model = RankingModel(FeatureEmbedding(SCHEMA, 4), Tower(histories, FieldInteraction(), head))
    return randomised(model)


FAST = {
    "reformer": {"size": 2, "buckets": 2},
    "routing_transformer": {"clusters": 2, "window": 3},
    "local": {"window": 2},
    "linformer": {"rank": 2, "length": S},
}
WEIGHTINGS = ("identity", "softmax", "sparsemax")
UNITS = [
    *({**UNIT, "config": {"units": [5], "weighting": w}} for w in WEIGHTINGS),
    *({"class_name": name, "config": config} for name, config in FAST.items()),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_the_weights_are_those_of_the_events(unit: dict[str, Any]) -> None:
    """The candidate's view of the history is the sum of the events, each with its weight."""
    attention = TargetAttention(unit)
    model = tower(attention)
    weights = arrays(model.explain(inputs())[1])[SEEN]
    history = model.embedding(inputs())["histories"]["seen"]
    seen = attention(history["query"], history["events"], history_mask=history["event_mask"])
    expected = np.zeros((B, T, 8))
    events = keras.ops.convert_to_numpy(history["events"])
    for b, t, s in np.ndindex(B, T, S):
        expected[b, t] += weights[b, t, s] * events[b, s]
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-5)
    if unit["config"].get("weighting") == "identity":
        assert np.ptp(weights.sum(-1)) > 0.1
    elif unit["class_name"] != "linformer":
        np.testing.assert_allclose(weights[:2].sum(-1), 1, rtol=0, atol=1e-6)


def test_heads_are_averaged() -> None:
    """Of attention with heads there is one weight for an event: their mean."""
    attention = TargetAttention("transformer", num_heads=2, head_dim=3)
    model = tower(attention)
    weights = arrays(model.explain(inputs())[1])[SEEN]
    history = model.embedding(inputs())["histories"]["seen"]
    mask = history["event_mask"]
    args = (history["query"], history["events"])
    _, of_heads = attention(*args, history_mask=mask, return_weights=True)
    assert of_heads.shape == (B, 2, T, S)
    np.testing.assert_allclose(weights, np.mean(of_heads, axis=1), rtol=0, atol=1e-6)


def test_the_gates_are_those_of_the_experts() -> None:
    """A task reads the sum of the experts, each with the share that its gate gives it."""
    experts = MMoE(2, num_experts=4, expert_units=(3,), gate="attention")
    model = tower(MeanHistory(), experts)
    seen = []
    call = experts.call
    experts.call = lambda x, **given: seen.append(x) or call(x, **given)
    gates = arrays(model.explain(inputs())[1])
    assert len(seen) == 1, "one pass"
    rows = keras.ops.reshape(seen[0], (B * T, -1))
    of_experts = keras.ops.convert_to_numpy(experts.experts(rows))  # experts, rows, units
    mixed = keras.ops.convert_to_numpy(experts(seen[0]))
    for index, task in enumerate(("click", "buy")):
        share = gates[f"gate/{task}"].reshape(B * T, 4)
        expected = np.einsum("me,emu->mu", share, of_experts).reshape(B, T, 3)
        np.testing.assert_allclose(mixed[:, :, index], expected, rtol=0, atol=1e-5)


def test_a_padded_candidate_has_no_weights() -> None:
    model = tower(InterestHistory(TargetAttention(), 4))
    mask = np.ones((B, T), bool)
    mask[:, 3:] = False
    weights = arrays(model.explain(inputs() | {"candidate_mask": mask})[1])[SEEN]
    assert (weights[:, 3:] == 0).all()
    assert (weights[0, :3, :4] != 0).all()


def test_a_plain_call_asks_for_no_weights() -> None:
    """What is not explained costs nothing: no layer is asked."""

    class Plain(MeanHistory):
        returns_weights = True

        def call(self, query: Any, events: Any, event_mask: Any, query_mask: Any = None) -> Any:
            return super().call(query, events, event_mask)

    model = tower(Plain())
    model.probabilities(inputs())
    with pytest.raises((TypeError, ValueError), match="return_weights"):
        model.explain(inputs())


def test_another_tower_explains_nothing() -> None:
    class Zeros(keras.layers.Layer):
        def call(self, embedded: Any) -> Any:
            return {"click": embedded["candidate"][0][..., 0, 0]}

    model = RankingModel(FeatureEmbedding(SCHEMA, 4), Zeros())
    assert model.explanations == ()
    assert model.explain(inputs())[1] == {}


def test_heads_without_experts_have_no_gates() -> None:
    with pytest.raises(ValueError, match="`return_gates` needs `experts`"):
        TaskHeads(["click"])(np.zeros((B, T, 3), "float32"), return_gates=True)
