"""All metrics of one task."""

import warnings
from functools import partial

import numpy as np
import pytest

from pipelines.metrics import (
    METRICS,
    MeansAtK,
    auc,
    auc_interval,
    average_precision,
    calibration,
    calibration_error,
    delong_interval,
    gauc,
    gauc_interval,
    logloss,
    normalised_entropy,
    recalibrated_entropy,
    smooth_calibration,
    task_metrics,
)
from tests.pipelines.metrics.samples import ROWS, sample
from tests.support.refusals import refusals

OF_ROWS = {
    "logloss": logloss,
    "calibration": calibration,
    "average_precision": average_precision,
    "normalised_entropy": normalised_entropy,
    "recalibrated_entropy": recalibrated_entropy,
    "calibration_error": calibration_error,
}
SMOOTH = ("ici", "e50", "e90")


def assert_metrics(metrics, expected):
    """Another metric of the table has its test beside its function's."""
    assert metrics.keys() - expected.keys() <= set(METRICS)
    assert {name: metrics[name] for name in expected} == expected


def test_task_metrics_are_those_of_the_labelled_rows():
    labels, scores, groups = sample(levels=13)
    truth, popularity, requests = np.sqrt(scores), 5.0 - 3 * scores, np.arange(ROWS) // 5
    unknown = np.random.default_rng(2).random(ROWS) < 0.3
    found = task_metrics(
        np.where(unknown, np.nan, labels),
        scores,
        groups=groups,
        requests=requests,
        at=(2, 3),
        train_rate=0.4,
        ceiling=truth,
        baselines={"popularity": popularity},
    )
    columns = (labels, scores, groups, truth, popularity, requests)
    y, s, g, t, p, r = (column[~unknown] for column in columns)
    (within, counted), rate = gauc(y, s, g), np.full(y.shape, 0.4)
    ranked = np.unique(r[y == 1]).size - sum(y[r == one].all() for one in np.unique(r))

    low, high = found["intervals"].pop("normalised_entropy")  # by test_table's influence
    np.testing.assert_allclose((low + high) / 2, found["normalised_entropy"])

    at_k = partial(means_at_k, y, r)
    assert_metrics(
        found,
        {
            "rows": y.size,
            "positives": int(y.sum()),
            "auc": auc(y, s),
            "gauc": within,
            "gauc_groups": counted,
            "at_k": at_k(s),
            "ranked_requests": ranked,
            "calibration_off": None,
            **{name: metric(y, s) for name, metric in OF_ROWS.items()},
            **{name: getattr(smooth_calibration(y, s), name) for name in SMOOTH},
            "intervals": intervals(y, s, g),
            "clusters": 31,
            "gauc_share": 1.0,
            "trivial": {
                "auc": 0.5,
                "gauc": 0.5,
                "at_k": at_k(rate),
                **{name: OF_ROWS[name](y, rate) for name in ("logloss", "calibration")},
                "calibration_off": "low",
            },
            "ceiling": {
                "auc": auc(y, t),
                "gauc": gauc(y, t, g)[0],
                "at_k": at_k(t),
                "logloss": logloss(y, t),
                "calibration": calibration(y, t),
            },
            "baselines": {
                "popularity": {"auc": auc(y, p), "gauc": gauc(y, p, g)[0], "at_k": at_k(p)}
            },
        },
    )
    counts = ("rows", "positives", "gauc_groups", "ranked_requests")
    assert {type(found[key]) for key in counts} == {int}


def means_at_k(labels, requests, scores):
    top = MeansAtK((2, 3))
    top.add(labels, scores, requests)
    return top.metrics()


def intervals(labels, scores, groups):
    """Their ends; those of logloss and calibration, ratios of sums over groups, by a loop."""
    losses = -np.log(np.where(labels == 1, scores, 1 - scores))
    found = {
        "auc": list(auc_interval(labels, scores, groups)[1:3]),
        "auc_delong": list(delong_interval(labels, scores)[1:3]),
        "gauc": list(gauc_interval(labels, scores, groups)[1:3]),
    }
    for name, tops, bottoms in (
        ("logloss", losses, np.ones_like(labels)),
        ("calibration", scores, labels),
    ):
        value = tops.sum() / bottoms.sum()
        moved = [
            (tops[groups == one] - value * bottoms[groups == one]).sum() / bottoms.sum()
            for one in np.unique(groups)
        ]
        count = len(moved)
        half = 1.959963985 * np.sqrt(count / (count - 1) * np.square(moved).sum())
        found[name] = pytest.approx([value - half, value + half])
    return found


def test_calibration_is_off_beyond_a_tenth_and_chance():
    def off(rate, positives, rows):
        labels = np.arange(rows) < positives
        return task_metrics(labels, np.full(rows, rate))["calibration_off"]

    assert off(0.24, 200, 1000) == "high"  # 20% too many; two standard errors are 13.5%
    assert off(0.16, 200, 1000) == "low"
    assert off(0.24, 20, 100) is None  # chance
    assert off(0.208, 20_000, 100_000) is None  # small


def test_scores_of_a_ranking_loss_are_no_probabilities():
    labels, scores, _ = sample()
    found = task_metrics(labels, 10 * scores, probabilities=False, train_rate=0.5)
    for metrics in (found, found["trivial"]):
        for name in ("logloss", "calibration", "calibration_off"):
            assert metrics[name] is None
    assert found["ici"] is found["normalised_entropy"] is None
    assert found["auc"] == auc(labels, scores)


def test_undefined_task_metrics_are_none():
    names = "auc gauc gauc_groups ranked_requests logloss calibration calibration_off trivial"
    names += " ceiling average_precision normalised_entropy recalibrated_entropy gauc_share"
    nothing = {**dict.fromkeys(names.split()), "at_k": {}}
    ends = dict.fromkeys(("auc", "auc_delong", "logloss", "calibration", "normalised_entropy"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unlabelled = task_metrics([np.nan, np.nan], [0.1, 0.2])
        negative = task_metrics(
            [0, 0, np.nan], [0.5, 0.5, 0.1], groups=[1, 1, 2], baselines={"b": [1, 2, 3]}
        )
    assert_metrics(
        unlabelled,
        {
            "rows": 0,
            "positives": 0,
            **nothing,
            **dict.fromkeys(SMOOTH),
            "calibration_error": None,
            "intervals": ends,
            "clusters": 0,
            "baselines": {},
        },
    )
    assert_metrics(
        negative,
        {
            "rows": 2,
            "positives": 0,
            **nothing,
            "calibration_error": pytest.approx(0.5),
            **dict.fromkeys(SMOOTH, pytest.approx(0.5)),
            "intervals": {**ends, "gauc": None},
            "clusters": 1,
            "gauc_share": 0.0,
            "gauc_groups": 0,
            "logloss": pytest.approx(np.log(2)),
            "baselines": {"b": {"auc": None, "gauc": None, "at_k": {}}},
        },
    )


test_columns_that_do_not_fit_are_named = refusals(
    *(
        (partial(task_metrics, [0, 1, 1], [0.1, 0.2, 0.3], **given), f"`{name}` must have one val")
        for name, given in (
            ("groups", {"groups": [1, 2]}),
            ("ceiling", {"ceiling": [1, 2]}),
            ("popularity", {"baselines": {"popularity": [1]}}),
        )
    )
)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_rows_without_a_group_count_in_everything_but_gauc(missing):
    labels, scores, groups = sample(levels=13)
    without = np.random.default_rng(2).random(ROWS) < 0.3
    named = np.array(groups, dtype=object)
    named[without] = missing
    found = task_metrics(labels, scores, groups=named, baselines={"same": scores})
    kept = ~without
    expected = gauc(labels[kept], scores[kept], groups[kept])
    assert (found["gauc"], found["gauc_groups"]) == expected == gauc(labels, scores, named)
    assert found["baselines"]["same"]["gauc"] == expected[0] != gauc(labels, scores, groups)[0]
    assert (found["rows"], found["auc"]) == (ROWS, auc(labels, scores))
