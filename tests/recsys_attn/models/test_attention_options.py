"""Every preset goes into every place of a model that attends, by one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn import models
from recsys_attn.attention import presets
from recsys_attn.blocks import RecurrentMixer
from tests.support.arrays import assert_close
from tests.support.layer_case import randomise, tensorflow
from tests.support.small_models import SCHEMA, inputs, scores

SMALL = {
    "performer": {"features": 8},
    "random_feature_attention": {"features": 8},
    "linformer": {"rank": 3},
    "reformer": {"size": 4, "buckets": 2, "rounds": 1},
    "routing_transformer": {"clusters": 2, "window": 4},
    "sinkhorn": {"size": 4},
    "bigbird": {"size": 2, "count": 1},
    "local": {"window": 2},
    "longformer": {"window": 2},
    "sparse_transformer": {"stride": 2},
}
PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "interaction": ("autoint", {}),
    "encoder target_attention": ("din", {"mlp_units": (5,)}),
    "gate_attention": ("mmoe", {"gate": "attention"}),
}
# Every preset with queries from the events and from the candidates, in one model; one of each
# mechanism elsewhere.
KINDS = ("afm", "linear_transformer", "local", "memory_compressed", "reformer", "t5", "transformer")
CASES = [
    *(("encoder target_attention", name) for name in presets.PRESETS),
    *((place, name) for place in ("interaction", "gate_attention") for name in KINDS),
]


def model(places: str, preset: str) -> Any:
    name, arguments = PLACES[places]
    part = {"class_name": preset, "config": SMALL.get(preset, {})}
    tables: dict[str, Any] = {
        "interaction": {"interaction": {"name": part, "num_layers": 1, "head_dim": 4}},
        "encoder target_attention": {
            "encoder": {"name": part, "head_dim": 4},
            "target_attention": part,
        },
        "gate_attention": {"experts": {"number": 3, "units": (4,), "gate_attention": part}},
    }
    return models.get(name)(SCHEMA, width=4, **arguments, **tables[places])


@pytest.mark.sampled(21)
@pytest.mark.parametrize(("place", "preset"), CASES)
def test_a_preset_in_a_place(place: str, preset: str) -> None:
    tensorflow()  # the compositions run on every backend; how models hold them is the same
    if place == "gate_attention" and preset in ("afm", "memory_compressed"):
        with pytest.raises(ValueError, match="would get the same result"):
            model(place, preset)
        return
    ranker = model(place, preset)
    values = inputs(candidates=4)
    found = scores(ranker, values)
    for score in found.values():
        assert score.shape == (5, 4)
        assert np.isfinite(score).all()
    # Candidates do not see each other, whatever attends.
    alone = scores(ranker, {**values, **{n: values[n][:, :1] for n in ("item", "tags", "price")}})
    for task, score in alone.items():
        assert_close(score, found[task][:, :1])


def test_heads_of_models_share_keys_or_have_small_values() -> None:
    block = {"class_name": "block", "config": {"num_heads": [4, 2], "head_dim": [4, 3]}}
    options: list[tuple[Any, dict[str, Any]]] = [
        (models.din, {"encoder": {"name": "rotary", "num_heads": [4, 1], "head_dim": [4, 2]}}),
        (models.din, {"encoder": block}),
        (models.autoint, {"interaction": {"num_layers": 2, "head_dim": [8, 3]}}),
        (models.attention_ranker, {"encoder": "alibi", "interaction": {"head_dim": [4, 3]}}),
    ]
    for make, given in options:
        for score in scores(make(SCHEMA, width=4, **given), inputs()).values():
            assert np.isfinite(score).all()
    with pytest.raises(
        ValueError, match=r"`encoder.num_heads`: .* must divide .*num_heads=\[4, 3\]"
    ):
        models.din(SCHEMA, width=4, encoder={"name": "rotary", "num_heads": [4, 3]})


def test_an_instance_makes_each_layer_one_of_its_own(tmp_path: Path) -> None:
    arguments: Any = {
        "encoder": {"name": presets.performer(8), "num_layers": 2},
        "target_attention": presets.din((4,)),
    }
    ranker = models.din(SCHEMA, width=4, mlp_units=(5,), **arguments)
    ranker.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected = scores(ranker, inputs())
    for task, score in scores(loaded, inputs()).items():
        np.testing.assert_allclose(score, expected[task], rtol=1e-5, atol=1e-6)


NO_EFFECT: list[tuple[str, dict[str, Any], str]] = [
    ("mmoe", {"experts": {"gate_attention": "han"}}, "is that of a gate of attention"),
    ("din", {"encoder": {"num_heads": 3}}, "`encoder.name` is missing"),
    ("din", {"target_attention": {"head_dim": 3}}, "`num_heads` and `head_dim` go together"),
    ("autoint", {"dropout": 0.5}, "none without `mlp_units`"),
]


@pytest.mark.parametrize(
    ("name", "options", "message"), NO_EFFECT, ids=[n for n, _, _ in NO_EFFECT]
)
def test_an_option_that_would_change_nothing_is_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        models.get(name)(SCHEMA, **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("encoder", ["rotary", "t5", "longformer", "memory_compressed"])
def test_missing_events_change_nothing_wherever_they_stand(encoder: str) -> None:
    part = {"class_name": encoder, "config": SMALL.get(encoder, {})}
    ranker = models.attention_ranker(
        SCHEMA,
        width=4,
        encoder=part,
        interaction={"num_heads": 2, "head_dim": 4},
        experts={"units": (5,)},
    )
    randomise(ranker)
    values = inputs()
    histories = [s.name for sequences in SCHEMA.histories.values() for s in sequences]
    length = values[histories[0]].shape[1]
    events = {n: np.where(values[n] == 0, 2, values[n]) for n in histories}
    places = np.sort(np.random.default_rng(0).permutation(length + 3)[:length])
    behind, between = dict(values), dict(values)
    for name in histories:
        behind[name] = np.pad(events[name], ((0, 0), (0, 3)))
        between[name] = np.zeros_like(behind[name])
        between[name][:, places] = events[name]
    expected, weights = ranker.explain(behind)
    found, moved = ranker.explain(between)
    for task, score in expected.items():
        assert_close(found[task], score)
    for name, weight in weights.items():
        if name.startswith("attention/"):
            weight = keras.ops.convert_to_numpy(weight)[..., :length]
            moved_weight = keras.ops.convert_to_numpy(moved[name])
            assert_close(moved_weight[..., places], weight)


ENCODERS: dict[str, Any] = {
    "gru": {},
    "lstm": {"bidirectional": True},
    "convolution": {"kernel_size": 2},
    "squeeze_excitation": {"reduction": 2},
    "gmlp": {"length": 9, "attention_size": 2},
    "mlp_mixer": {"length": 9},
    "fnet": {"length": 9},
    "block": {
        "attention": {"class_name": "performer", "config": {"features": 8}},
        "norm": "rms",
        "placement": "sandwich",
        "residual": "rezero",
        "activation": "swiglu",
        "groups": 1,
    },
    "segments": {
        "encoder": {"class_name": "block", "config": {"attention": "alibi", "norm": "rms"}},
        "segment": 2,
        "memory": 3,
    },
}


def segments(name: str, **config: Any) -> dict[str, Any]:
    encoder = {"class_name": name, "config": config}
    return {"class_name": "segments", "config": {"encoder": encoder, "segment": 2, "memory": 3}}


@pytest.mark.thorough
def test_a_long_memory_over_segments_is_the_plain_encoder() -> None:
    plain = {"class_name": "transformer_xl", "config": {"max_distance": 9}}
    cut = segments("transformer_xl", max_distance=9)
    cut["config"]["memory"] = 9
    made = [
        models.din(SCHEMA, width=4, mlp_units=(5,), encoder={"name": encoder, "num_layers": 2})
        for encoder in (plain, cut)
    ]
    expected, found = (scores(ranker, inputs()) for ranker in made)
    made[1].set_weights(made[0].get_weights())
    found = scores(made[1], inputs())
    for task, score in expected.items():
        assert_close(found[task], score)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_without_attention_or_with_options(name: str) -> None:
    part = {"class_name": name, "config": ENCODERS[name]}
    ranker = models.din(SCHEMA, width=4, mlp_units=(5,), encoder={"name": part, "num_layers": 2})
    randomise(ranker)
    values = inputs()
    found = scores(ranker, values)
    histories = [s.name for sequences in SCHEMA.histories.values() for s in sequences]
    padded = {n: np.pad(v, ((0, 0), (0, 2))) if n in histories else v for n, v in values.items()}
    for task, score in scores(ranker, padded).items():
        assert_close(score, found[task])


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("gri", r"a mixer, 'block' or 'segments'.* Did you mean 'gru'"),
        ({"class_name": "block", "config": {"nrm": "rms"}}, "has no argument 'nrm'.*'norm'"),
        (
            {"class_name": "block", "config": {"norm": "conditional"}},
            "needs a condition: set `encoder.context`",
        ),
        ("gmlp", "'gmlp' needs `length`, the most events"),
        ({"class_name": "block", "config": {"groups": 0}}, "`groups` must be a positive"),
        (
            {"class_name": "block", "config": {"residual": "reversible", "dropout": 0.1}},
            "computes each block twice",
        ),
        ("segments", "'segments' needs 'segment', 'memory'"),
        (segments("performer", causal=True), "Linear has one sequence and no memory"),
        (segments("gru"), "RecurrentMixer has one sequence and no memory"),
        (
            {"class_name": "block", "config": {"placement": "post", "norm": "none"}},
            "`placement` has no effect",
        ),
        (
            {
                "class_name": "block",
                "config": {"attention": "gru", "placement": "post", "residual": "deepnorm"},
            },
            "scales the initial weights of `attention`",
        ),
    ],
)
def test_a_wrong_encoder_is_one_sentence(encoder: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        models.din(SCHEMA, width=4, mlp_units=(5,), encoder=encoder)


def test_blocks_of_a_model_are_reversible() -> None:
    part = {"class_name": "block", "config": {"attention": "alibi", "residual": "reversible"}}
    ranker = models.din(SCHEMA, width=4, mlp_units=(5,), encoder={"name": part, "num_layers": 3})
    assert all(np.isfinite(score).all() for score in scores(ranker, inputs()).values())
    assert all(history.encoder.reversible for history in ranker.tower.histories.values())


def test_groups_of_blocks_share_their_weights() -> None:
    part = {"class_name": "block", "config": {"groups": 1}}
    counts = []
    for layers in (1, 3):
        ranker = models.din(
            SCHEMA, width=4, mlp_units=(5,), encoder={"name": part, "num_layers": layers}
        )
        scores(ranker, inputs())
        counts.append(ranker.count_params())
    assert counts[0] == counts[1]


def test_an_instance_of_an_encoder_is_copied_for_each_block() -> None:
    mixer = RecurrentMixer("lstm")
    ranker = models.din(SCHEMA, width=4, mlp_units=(5,), encoder={"name": mixer, "num_layers": 2})
    scores(ranker, inputs())
    assert not mixer.built
