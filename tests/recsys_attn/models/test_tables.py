"""Options of the embedding tables of a model."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from recsys_attn.models import mlp, with_tables
from recsys_attn.schema import RESERVED_IDS, Categorical, Schema, Task
from tests.support.arrays import assert_close, numpy
from tests.support.small_models import make


def shapes(model: keras.Model) -> list[tuple[str, tuple[int, ...]]]:
    return [(variable.name, tuple(variable.shape)) for variable in model.variables]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["fm", "autoint", "stem", "eulernet"])
def test_nothing_but_the_tables_changes(name: str) -> None:
    model = make(name)
    found = with_tables(model, stddev=1e-4, l2=0.5)
    assert shapes(found) == shapes(model)
    before, after = model.get_config(), found.get_config()
    for config in (before, after):
        for key in ("embeddings_initializer", "embeddings_regularizer"):
            config["embedding"]["config"].pop(key)
    assert after == before


@pytest.mark.parametrize("name", ["fm", "dsin"])
def test_other_weights_stay_as_they_are(name: str) -> None:
    model = make(name)
    found, penalised = with_tables(model, stddev=1e-4), with_tables(model, l2=0.5)
    for before, after in zip(model.tower.weights, found.tower.weights, strict=True):
        np.testing.assert_array_equal(numpy(after), numpy(before))
    for before, after in zip(model.weights, penalised.weights, strict=True):
        np.testing.assert_array_equal(numpy(after), numpy(before))


def test_a_deviation_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`stddev` must be a finite number above 0"):
        with_tables(make("fm"), stddev=0.0)


def test_rows_have_the_deviation_and_reserved_rows_are_zero() -> None:
    model = mlp(Schema((Categorical("item", size=2000),), (Task("click"),)), units=(8,))
    for stddev, expected in ((None, 0.01), (1e-4, 1e-4)):
        rows = numpy(with_tables(model, stddev=stddev).embedding.vectors("item"))
        np.testing.assert_array_equal(rows[:RESERVED_IDS], 0)
        np.testing.assert_allclose(rows[RESERVED_IDS:].std(), expected, rtol=0.05)


def test_penalty_is_that_of_whole_tables() -> None:
    model = with_tables(make("fm"), l2=0.5)
    tables = [v for v in model.embedding.trainable_variables if v.regularizer is not None]
    assert tables
    assert_close(sum(model.losses), 0.5 * sum(np.sum(numpy(v) ** 2) for v in tables))


def test_a_model_without_other_options_stays_the_same() -> None:
    model = make("fm")
    assert with_tables(model) is model
