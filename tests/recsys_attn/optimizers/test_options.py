"""Options that would cost whole tables are refused, and so is what is out of range."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.optimizers import LazyAdam, RowOptimizer
from tests.support.optimizers import OPTIMIZERS, batches, gradient, table

MAKERS = pytest.mark.parametrize("make", [made for made, _ in OPTIMIZERS.values()])


@MAKERS
@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [
        ("use_ema", True, "whole tables"),
        ("gradient_accumulation_steps", 2, "whole tables"),
        ("loss_scale_factor", 8.0, "`LossScale`"),
    ],
)
def test_options_of_keras_that_tables_cannot_have(
    make: type[RowOptimizer], argument: str, value: Any, reason: str
) -> None:
    with pytest.raises(ValueError, match=rf"has no `{argument}`: it .*{reason}.*={value}"):
        make(0.1, **{argument: value})


@MAKERS
@pytest.mark.parametrize("argument", ["weight_decay", "l2", "epsilon"])
def test_negative_numbers_are_refused(make: type[RowOptimizer], argument: str) -> None:
    with pytest.raises(ValueError, match=rf"`{argument}` must be .* of at least 0.*-0.5"):
        make(0.1, **{argument: -0.5})


@MAKERS
@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("learning_rate", -1.0, "at least 0"),
        ("clipnorm", -1.0, "above 0"),
        ("clipvalue", 0.0, "above 0"),
        ("l2", "a", "a finite number"),
        ("tables", "(", "a regular expression"),
    ],
)
def test_wrong_values_are_named(
    make: type[RowOptimizer], argument: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=rf"`{argument}` must be .*{message}.*{argument}="):
        make(**{"learning_rate": 0.1, argument: value})


@pytest.mark.parametrize("value", [-0.1, 1.0])
def test_betas_lie_between_0_and_1(value: float) -> None:
    with pytest.raises(ValueError, match=r"`beta_2` must be .* at least 0 and below 1"):
        LazyAdam(0.1, beta_2=value)


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="clip_norm"):
        LazyAdam(0.1, clip_norm=1.0)


def test_a_table_with_a_constraint_is_refused() -> None:
    variable = table()
    variable.constraint = keras.constraints.NonNeg()
    with pytest.raises(ValueError, match=r"A constraint rewrites the whole table.*table_5"):
        LazyAdam(0.1).build([variable])


def test_l2_needs_the_lookups() -> None:
    ids, values = batches()[0]
    with pytest.raises(ValueError, match=r"`l2` counts the lookups.*'table_5' is dense.*l2=0.5"):
        LazyAdam(0.1, l2=0.5).apply([gradient(ids, values, sparse=False)], [table()])


def test_l2_is_of_tables_alone() -> None:
    """A kernel has no lookups to count, and is not regularised."""
    ids, values = batches()[0]
    kernels = [table("kernel"), table("kernel")]
    for kernel, l2 in zip(kernels, (None, 0.5), strict=True):
        LazyAdam(0.1, l2=l2).apply([gradient(ids, values, sparse=False)], [kernel])
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(k) for k in kernels))


def test_variables_can_be_left_out_of_weight_decay() -> None:
    steps = batches()[:1]
    found = []
    for decay, names in ((None, None), (0.3, ["table"])):
        optimizer, variable = LazyAdam(0.1, weight_decay=decay), table()
        optimizer.exclude_from_weight_decay(var_names=names)
        optimizer.apply([gradient(*steps[0])], [variable])
        found.append(keras.ops.convert_to_numpy(variable))
    np.testing.assert_array_equal(*found)


@MAKERS
def test_survives_its_config(make: type[RowOptimizer]) -> None:
    options = {"weight_decay": 0.1, "l2": 0.2, "tables": "t", "clipnorm": 0.3, "epsilon": 0.4}
    optimizer = make(0.5, name="own", **options)
    revived = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(revived) is make
    assert revived.get_config() == optimizer.get_config()
    assert options.items() <= revived.get_config().items()
