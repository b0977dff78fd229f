"""The parts of the benchmark of gates: equal sizes, intervals, ranks, and numbers about gates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.gate_study.choices import choices
from benchmarks.gate_study.sets import drawn_set
from benchmarks.gate_study.tables import MEAN, aucs, difference, mean_ranks, over_sets
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


def test_a_seed_that_a_set_lacks_is_in_no_mean() -> None:
    assert over_sets([{0: 0.5, 1: 0.7, 2: 0.9}, {2: 0.5, 0: 0.7}]) == {
        0: pytest.approx(0.6),
        2: pytest.approx(0.7),
    }


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


@pytest.mark.thorough
def test_rows_of_its_own_change_no_other_seed() -> None:
    code = """
import numpy as np
from benchmarks.boards_on_jax.seeds import Seeds
from benchmarks.boards_on_jax.write import KNOWN
from pipelines.experiment.training_options import TrainingOptions
from recsys_attn.schema import Categorical, Schema, Task

rng, schema = np.random.default_rng(0), Schema((Categorical("item", size=7),), (Task("click"),))
training = TrainingOptions(epochs=2, batch_size=16).model_dump()
run = {"name": "lr", "schema": schema.to_dict(), "model": {"name": "logistic_regression"},
       "training": {key: training[key] for key in KNOWN}, "monitor": {"click": "auc"}}
one = {f"{split}/{name}": rng.integers(0, high, (37, 1)) * 1.0 if high == 2 else
       rng.integers(0, high, (37, 1)) for split in ("train", "valid", "test")
       for name, high in (("item", 7), ("label/click", 2))}
both = {name: np.stack([x, x[::-1]]) for name, x in one.items()}
shared, by_seed = Seeds(run, one, [3, 5]), Seeds(run, both, [3, 5], by_seed=True)
for seeds in (shared, by_seed):
    seeds.train(np.inf, lambda epoch: None)
of_shared, of_seeds = shared.scores("test")["click"], by_seed.scores("test")["click"]
np.testing.assert_allclose(of_seeds[0], of_shared[0], atol=1e-6)
assert abs(of_seeds[1][::-1] - of_shared[1]).max() > 1e-6  # other batches
model = by_seed.model_of(1)
logits = np.asarray(model({"item": both["test/item"][1]})["click"])
np.testing.assert_allclose(1 / (1 + np.exp(-logits)), of_seeds[1], atol=1e-6)
"""
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
