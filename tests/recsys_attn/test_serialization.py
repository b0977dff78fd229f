"""Components come from an instance, a name or a config, and go through JSON unchanged."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import (
    MultiHeadAttention,
    compressors,
    feature_maps,
    gates,
    mechanisms,
    patterns,
    presets,
    routers,
    scores,
    weightings,
)
from recsys_attn.serialization import deserialize, serialize

NAMES = [
    (scores, name, kind)
    for name, kind in [
        ("additive", scores.Additive),
        ("cosine", scores.Cosine),
        ("dot", scores.Dot),
        ("general", scores.General),
        ("mlp", scores.Mlp),
        ("scaled_dot", scores.Dot),
    ]
] + [
    (weightings, "identity", weightings.Identity),
    (weightings, "softmax", weightings.Softmax),
    (mechanisms, "dense", mechanisms.Dense),
]
FAMILY_NAMES = pytest.mark.parametrize(
    ("family", "name", "kind"), NAMES, ids=[name for _, name, _ in NAMES]
)


@FAMILY_NAMES
def test_a_name_makes_a_member(family: ModuleType, name: str, kind: type) -> None:
    assert type(family.get(name)) is kind
    assert family.get(name, dtype="mixed_bfloat16").compute_dtype == "bfloat16"
    assert type(family.get({"class_name": name})) is kind


@FAMILY_NAMES
def test_an_instance_and_its_config_make_the_same(
    family: ModuleType, name: str, kind: type
) -> None:
    member = family.get(name)
    assert family.get(member) is member
    revived = family.get(json.loads(json.dumps(family.serialize(member))))
    assert revived.get_config() == member.get_config()


class Doubled(mechanisms.Mechanism):
    """A mechanism of one's own, which need not be registered to be used."""

    def call(self, query: Any, key: Any, value: Any, masks: Any) -> Any:
        return 2 * value, None


class Halved(keras.layers.Layer):
    """A gate of one's own."""

    def call(self, heads: Any, inputs: Any) -> Any:
        return heads / 2


SLOTS: dict[str, tuple[ModuleType, Any]] = {
    "score": (scores, scores.Dot()),
    "weighting": (weightings, weightings.Softmax()),
    "pattern": (patterns, patterns.Causal()),
    "router": (routers, routers.Lsh(4)),
    "compressor": (compressors, compressors.Pool()),
    "feature map": (feature_maps, feature_maps.Elu()),
    "gate": (gates, gates.OutputGate()),
    "mechanism": (mechanisms, mechanisms.Dense()),
}
LAYERS = [keras.layers.Dense(3), keras.layers.MultiHeadAttention(2, 3), MultiHeadAttention(2, 3)]


@pytest.mark.parametrize("slot", SLOTS)
def test_a_part_fits_its_own_slot_alone(slot: str) -> None:
    family, own = SLOTS[slot]
    assert family.get(own) is own
    for other in [*(part for _, part in SLOTS.values() if part is not own), *LAYERS]:
        sentence = f"^Expected a {slot}[ ,.].* Received: .*{type(other).__name__}"
        with pytest.raises((TypeError, ValueError), match=sentence):
            family.get(other)


@pytest.mark.parametrize(
    ("family", "own"), [(mechanisms, Doubled()), (presets, Doubled()), (gates, Halved())]
)
def test_a_part_of_ones_own_needs_no_name(family: ModuleType, own: keras.layers.Layer) -> None:
    assert family.get(own) is own


def test_a_saved_part_fits_its_own_slot_alone() -> None:
    saved = serialize(weightings.Softmax())
    with pytest.raises(ValueError, match=r"^Expected a score .* Received: <Softmax"):
        scores.get(saved)
    with pytest.raises(TypeError, match=r"^Expected a mechanism or a preset.*Dense\(score"):
        presets.get(saved)


@pytest.mark.parametrize("config", [3, "score", ["score"]])
def test_arguments_stand_in_a_table(config: Any) -> None:
    with pytest.raises(ValueError, match=r"'dense' stand in a table of their .*Received: conf"):
        presets.get({"class_name": "dense", "config": config})


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ({"class_name": "linear", "config": {"causal": "yes"}}, "`causal` must be True or False"),
        ({"class_name": "dense", "config": {"dropout": "no"}}, "`dropout` must be a finite num"),
        ({"class_name": "performer", "features": 8}, "stand in a table of their own.*features"),
        ({"class_name": "performer", "config": {"feature": 8}}, "Did you mean 'features'"),
        ("routed", "'routed' needs 'router'"),
        ({"class_name": "longformer", "config": {"window": 0}}, "`window` must be a positive"),
        (
            {"class_name": "longformer", "config": {"tokens": []}},
            "`tokens` must be a list of positions of global tokens",
        ),
        (
            {"class_name": "content_addressing", "config": {"sharpness": 0}},
            "`sharpness` must be a finite .*above 0",
        ),
    ],
)
def test_wrong_arguments_of_a_preset_are_one_sentence(identifier: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        presets.get(identifier)


def test_a_preset_meets_a_pattern_of_ones_own() -> None:
    preset = presets.get({"class_name": "local", "config": {"pattern": "causal"}})
    assert preset.pattern.is_causal


def test_the_short_form_takes_arguments() -> None:
    score = scores.get({"class_name": "mlp", "config": {"units": [4], "activation": "relu"}})
    assert (score.units, score.activation) == ((4,), "relu")
    assert scores.get("dot").scale is False
    assert scores.get("scaled_dot").scale is True


@pytest.mark.parametrize(
    ("family", "wrong", "message"),
    [
        (scores, "aditive", "Expected a score .*Valid names:.*'scaled_dot'.*'additive'"),
        (scores, None, "Received: None$"),
        (weightings, "softmx", "Expected a weighting .*Did you mean 'softmax'"),
        (mechanisms, {"class_name": "sparse"}, "Expected a mechanism .*Received: 'sparse'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_valid_ones(
    family: ModuleType, wrong: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        family.get(wrong)


def test_a_built_child_is_saved_as_if_it_were_not_built() -> None:
    layer = keras.layers.Dense(3)
    before = serialize(layer)
    layer(np.ones((2, 5), "float32"))
    assert serialize(layer) == before
    assert "build_config" not in before
    assert not deserialize(before).built


def test_none_and_layers_pass_through() -> None:
    layer = keras.layers.Dense(3)
    assert serialize(None) is None
    assert deserialize(None) is None
    assert deserialize(layer) is layer


@pytest.mark.parametrize(
    ("name", "slot", "value"),
    [("alibi", "score", "dot"), ("linformer", "compressor", "pool"), ("bigbird", "router", "lsh")],
)
def test_a_slot_that_a_preset_fills_is_not_filled_again(name: str, slot: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' sets '{slot}' itself"):
        presets.get({"class_name": name, "config": {slot: value}})


def test_a_part_is_not_frozen_by_its_table() -> None:
    """Keras would set the flag, and train the part's weights all the same."""
    with pytest.raises(ValueError, match="'additive' has no argument 'trainable'"):
        presets.get({"class_name": "additive", "config": {"trainable": False}})
    table = {"class_name": "random_synthesizer", "config": {"trainable": False, "length": 5}}
    assert not scores.get(table).trainable  # its own argument
