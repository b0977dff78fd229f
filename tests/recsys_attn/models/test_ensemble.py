"""An ensemble: the weighted mean of the calibrated logits of its members."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest

from recsys_attn.models import RankingModel, ensemble, mlp
from recsys_attn.schema import Schema, Task
from tests.support.arrays import numpy
from tests.support.small_models import SCHEMA, assert_same, inputs, make, scores

NAMES = ("din", "esmm", "logistic_regression")
CALIBRATIONS = (
    {"click": (1.5, 0.3), "buy": (0.7, -0.2)},
    {"click": (0.9, -1.0), "buy": (2.0, 0.1)},
    {},
)
WEIGHTS = {"click": (0.5, 0.2, 0.3), "buy": (0.0, 0.6, 0.4)}


@pytest.fixture(scope="module")
def members() -> list[RankingModel]:
    """Models of several kinds, each with its own calibration."""
    models = [ensemble(SCHEMA, [make(name)]) for name in NAMES]  # copies, as `make` is shared
    for model, calibration in zip(models, CALIBRATIONS, strict=True):
        model.calibrate(calibration)
    return models


def logits_of(model: RankingModel) -> dict[str, np.ndarray]:
    return {task: numpy(logit).astype("float64") for task, logit in model(inputs()).items()}


@pytest.mark.parametrize("name", NAMES)
def test_an_ensemble_of_one_is_its_member(name: str) -> None:
    member = make(name)
    assert_same(scores(ensemble(SCHEMA, [member]), inputs()), scores(member, inputs()))


def test_logits_are_the_mean_of_calibrated_ones(members: list[RankingModel]) -> None:
    actual = logits_of(ensemble(SCHEMA, members, WEIGHTS))
    of_members = [logits_of(member) for member in members]
    for task, weights in WEIGHTS.items():
        expected = sum(
            weight * (slope * logits[task] + offset)
            for weight, logits, (slope, offset) in zip(
                weights, of_members, (member.calibration()[task] for member in members), strict=True
            )
        )
        np.testing.assert_allclose(actual[task], expected, atol=1e-5)


def test_weights_are_equal_unless_given(members: list[RankingModel]) -> None:
    equal = dict.fromkeys(WEIGHTS, [1 / 3] * 3)
    assert_same(
        scores(ensemble(SCHEMA, members), inputs()),
        scores(ensemble(SCHEMA, members, equal), inputs()),
    )


def test_a_saved_ensemble_scores_the_same(members: list[RankingModel], tmp_path: Path) -> None:
    model = ensemble(SCHEMA, members, WEIGHTS)
    model.calibrate({"click": (1.2, 0.4)})
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    assert_same(scores(loaded, inputs()), scores(model, inputs()))


def test_scores_fall_along_the_tasks_if_all_members_do() -> None:
    """As in `esmm`, also with weights that differ between tasks."""
    models = [make("esmm"), ensemble(SCHEMA, [make("esmm")])]
    models[1].calibrate({"buy": (1.0, 5.0)})
    falling = ensemble(SCHEMA, models, {"click": (1.0, 0.0), "buy": (0.0, 1.0)})
    actual = scores(falling, inputs())
    np.testing.assert_array_equal(actual["buy"], actual["click"])
    mixed = scores(ensemble(SCHEMA, [*models, make("din")]), inputs())
    assert (mixed["buy"] > mixed["click"]).any()


def test_a_member_may_read_fewer_features(members: list[RankingModel]) -> None:
    fewer = Schema(SCHEMA.features[:3], SCHEMA.tasks)
    small = mlp(fewer, width=4, units=(3,))
    values = {name: array for name, array in inputs().items() if name in {"user", "age", "item"}}
    actual = scores(ensemble(SCHEMA, [members[0], small], dict.fromkeys(WEIGHTS, (0, 1))), inputs())
    assert_same(actual, scores(small, values))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"click": (0.5, 0.5)}, "`weights` must have for each task"),
        ({"click": (0.5, 0.6), "buy": (0.5, 0.5)}, "with the sum 1"),
        ({"click": (1.5, -0.5), "buy": (0.5, 0.5)}, "numbers from 0"),
        ({"click": (1.0,), "buy": (0.5, 0.5)}, "one for each member"),
    ],
)
def test_wrong_weights_are_refused(weights: dict[str, tuple[float, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ensemble(SCHEMA, [make("esmm"), make("esmm")], weights)


def test_wrong_members_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one model"):
        ensemble(SCHEMA, [])
    with pytest.raises(ValueError, match=r"members\[0\] has others: \['user'"):
        ensemble(Schema(SCHEMA.features[2:4], SCHEMA.tasks), [make("esmm")])
    with pytest.raises(ValueError, match=r"members\[0\] must have all tasks of `schema`"):
        ensemble(replace(SCHEMA, tasks=(Task("share"),)), [make("esmm")])
