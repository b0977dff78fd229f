"""The parts of the benchmark of gates: equal sizes, intervals, ranks, and numbers about gates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.gate_study.choices import choices
from benchmarks.gate_study.sets import drawn_set
from benchmarks.gate_study.tables import MEAN, aucs, difference, mean_ranks
from benchmarks.gate_study.variants import GATES, UNITS, model_arguments, weights
from recsys_attn import models
from recsys_attn.schema import Categorical, Numeric, Schema, Task

SCHEMA = Schema(
    (Categorical("item", size=7), Categorical("shop", size=5), Numeric("price")),
    (Task("click"), Task("buy")),
)
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("gate", ["transformer", "additive", "no gate"])
def test_a_gate_has_as_many_weights_as_the_first(gate: str) -> None:
    softmax, other = (model_arguments(name, SCHEMA) for name in ("softmax", gate))
    assert softmax["experts"]["units"] == list(UNITS)
    wanted, found = weights(softmax, SCHEMA), weights(other, SCHEMA)
    place = other.get("experts", other)
    larger = {**place, "units": [place["units"][0] + 1, *place["units"][1:]]}
    more = {**other, "experts": larger} if "experts" in other else larger
    assert abs(found - wanted) <= (weights(more, SCHEMA) - found) / 2


def test_every_gate_has_a_model_of_its_own() -> None:
    assert len({json.dumps(options) for options in GATES.values()}) == len(GATES)


def test_intervals_are_those_of_a_paired_t_test() -> None:
    one, other = RNG.normal(size=(2, 7))
    value, half = difference(dict(enumerate(one)), {**dict(enumerate(other)), 9: 0.5})
    wanted = stats.ttest_rel(one, other).confidence_interval(0.95)
    np.testing.assert_allclose([value - half, value + half], [wanted.low, wanted.high])


def test_mean_of_tasks_is_taken_by_seed() -> None:
    of_seed = {"valid": {"click": 0.6, "buy": 0.8}}
    results = {("a", "han", 0): of_seed, ("a", "softmax", 0): of_seed, ("b", "han", 1): of_seed}
    assert aucs(results, "a", "han", MEAN, "valid") == {0: pytest.approx(0.7)}
    assert aucs(results, "b", "han", "buy", "valid") == {1: 0.8}


def test_ranks_of_equal_values_are_their_mean() -> None:
    values = RNG.integers(0, 4, (5, 3)) / 4
    wanted = np.mean([stats.rankdata(-column) for column in values.T], axis=0)
    np.testing.assert_allclose(mean_ranks(values), wanted)


def test_a_gate_without_weights_shares_equally() -> None:
    arguments = model_arguments("softmax", SCHEMA)
    model = models.get(arguments.pop("name"))(SCHEMA, **arguments)
    kernel = model.tower.head.experts.input_gate.kernel
    inputs = {
        "item": RNG.integers(0, 7, (11, 1)),
        "shop": RNG.integers(0, 5, (11, 1)),
        "price": RNG.normal(size=(11, 1)).astype("float32"),
    }
    kernel.assign(np.zeros(kernel.shape))
    numbers = choices(model, inputs)
    assert (numbers["entropy"], numbers["by row"], numbers["by task"]) == (1.0, 0.0, 0.0)
    kernel.assign(100 * RNG.normal(size=kernel.shape))
    numbers = choices(model, inputs)
    assert numbers["entropy"] < 0.9
    assert min(numbers["by row"], numbers["by task"]) > 0.05


def test_seeds_draw_other_rows_of_one_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.gate_study.sets.ROWS", 500)
    drawn = drawn_set(tmp_path, "r=-0.5", [0, 1])
    clicks = drawn.arrays["train/label/click"]
    assert clicks.shape == (2, 180, 1)
    assert (clicks[0] != clicks[1]).any()
    again = drawn_set(tmp_path, "r=-0.5", [1])  # from the file
    np.testing.assert_array_equal(again.arrays["train/label/click"][0], clicks[1])
