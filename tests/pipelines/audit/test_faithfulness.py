"""Rank correlation, the share of the deletion area, and the verdict."""

import numpy as np
import pytest
from scipy import stats

from pipelines.audit.faithfulness import (
    ATTENTION,
    LEAVE_ONE_OUT,
    RANDOM,
    faithfulness,
    rank_correlation,
)

ROWS, UNITS = 301, 7


def test_rank_correlation_is_spearmans_over_the_units_that_are_there():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, (2, ROWS, UNITS)).astype(float)  # many ties
    there = rng.random((ROWS, UNITS)) < 0.6
    first[0], second[1] = 2, 2  # constant rows
    there[:2], there[2:5] = True, [[True] * k + [False] * (UNITS - k) for k in (0, 1, 2)]
    found = rank_correlation(first, second, there)
    for row in range(ROWS):
        x, y = first[row, there[row]], second[row, there[row]]
        if len(x) < 3 or np.ptp(y) == 0:
            assert np.isnan(found[row])
        elif np.ptp(x) == 0:
            assert found[row] == 0
        else:
            assert found[row] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert np.isnan(found).any()
    assert (found[~np.isnan(found)] == 0).any()


@pytest.fixture
def measured():
    """Leaving one out with noise of several sizes, and curves that follow."""
    rng = np.random.default_rng(1)
    lost = rng.normal(size=(ROWS, UNITS))
    noisy = {name: lost + size * rng.normal(size=lost.shape) for name, size in NOISE.items()}
    area = {name: 1 - 0.3 * size + 0.1 * rng.normal(size=(ROWS, 3)) for name, size in NOISE.items()}
    curves = {LEAVE_ONE_OUT: np.ones((ROWS, 3)), RANDOM: np.full((ROWS, 3), 0.2), **area}
    return {LEAVE_ONE_OUT: lost, **noisy}, curves


NOISE = {"good": 0.1, "fair": 1.0, ATTENTION: 1.0}
THERE = np.ones((ROWS, UNITS), bool)
CLUSTERS = np.arange(ROWS) // 3


def test_the_method_nearest_to_leaving_one_out_is_believed(measured):
    by_method, curves = measured
    found = faithfulness(by_method, THERE, curves, CLUSTERS)
    assert found["ordered_rows"] == ROWS
    assert list(found["methods"]) == list(NOISE)
    good, fair = found["methods"]["good"], found["methods"]["fair"]
    signed = rank_correlation(by_method["good"], by_method[LEAVE_ONE_OUT], THERE)
    assert good["signed"][0] == pytest.approx(signed.mean())
    assert good["size"][1] > fair["size"][2]
    # (1 - 0.3 * size - 0.2) / (1 - 0.2)
    assert good["deletion"][1] < 0.77 / 0.8 < good["deletion"][2]
    assert fair["deletion"][1] < 0.5 / 0.8 < fair["deletion"][2]
    verdict = found["verdict"]
    assert (verdict["believe"], verdict["attention"]) == ("good", "worse")
    assert 0 < verdict["difference"][1] < verdict["difference"][0] < verdict["difference"][2]


@pytest.mark.parametrize(
    ("left", "believe", "attention"),
    [(["fair", ATTENTION], "fair", "as well"), (["fair"], "fair", None)],
)
def test_attention_may_do_as_well_or_be_absent(measured, left, believe, attention):
    by_method, curves = measured
    by_method = {name: by_method[name] for name in (LEAVE_ONE_OUT, *left)}
    verdict = faithfulness(by_method, THERE, curves, CLUSTERS)["verdict"]
    assert (verdict["believe"], verdict["attention"]) == (believe, attention)


def test_attention_is_believed_only_where_it_is_better(measured):
    by_method, curves = measured
    swapped = {"good": by_method["fair"], ATTENTION: by_method["good"]}
    given = {LEAVE_ONE_OUT: by_method[LEAVE_ONE_OUT], **swapped}
    verdict = faithfulness(given, THERE, curves, CLUSTERS)["verdict"]
    assert (verdict["believe"], verdict["attention"]) == (ATTENTION, "better")
    assert verdict["difference"][2] < 0


def test_nothing_is_believed_where_nothing_agrees(measured):
    by_method, curves = measured
    given = {**by_method, "good": np.random.default_rng(2).normal(size=THERE.shape)}
    del given["fair"], given[ATTENTION]
    assert faithfulness(given, THERE, curves, CLUSTERS)["verdict"]["believe"] is None


def test_a_constant_model_has_no_faithfulness(measured):
    by_method, curves = measured
    zeros = {name: np.zeros_like(curve) for name, curve in curves.items()}
    given = {**by_method, LEAVE_ONE_OUT: np.zeros_like(THERE, float)}
    found = faithfulness(given, THERE, zeros, CLUSTERS)
    assert found["ordered_rows"] == 0
    assert found["verdict"] == {"believe": None, "attention": None, "difference": None}
    nothing = {"size": None, "signed": None, "deletion": None}
    assert found["methods"] == dict.fromkeys(NOISE, nothing)
