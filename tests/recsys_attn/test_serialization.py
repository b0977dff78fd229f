"""Components come from an instance, a name or a config, and go through JSON unchanged."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import mechanisms, presets, scores, weightings
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


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ({"class_name": "performer", "features": 8}, "stand in a table of their own.*features"),
        ({"class_name": "performer", "config": {"feature": 8}}, "Did you mean 'features'"),
        ("routed", "'routed' needs 'router'"),
        ({"class_name": "longformer", "config": {"window": 0}}, "`window` must be a positive"),
        ({"class_name": "longformer", "config": {"tokens": [-1]}}, "`tokens` must be positions"),
        ({"class_name": "content_addressing", "config": {"sharpness": 0}}, "must be positive"),
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
