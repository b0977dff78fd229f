"""All metrics of one task."""

import warnings
from functools import partial

import numpy as np
import pytest

from pipelines.metrics import auc, calibration, gauc, logloss, task_metrics
from tests.pipelines.metrics.samples import ROWS, sample
from tests.support.refusals import refusals


def test_task_metrics_are_those_of_the_labelled_rows():
    labels, scores, groups = sample(levels=13)
    truth, popularity = np.sqrt(scores), 5.0 - 3 * scores
    unknown = np.random.default_rng(2).random(ROWS) < 0.3
    found = task_metrics(
        np.where(unknown, np.nan, labels),
        scores,
        groups=groups,
        ceiling=truth,
        baselines={"popularity": popularity},
    )
    y, s, g, t, p = (column[~unknown] for column in (labels, scores, groups, truth, popularity))
    within, counted = gauc(y, s, g)
    assert found == {
        "rows": y.size,
        "positives": int(y.sum()),
        "auc": auc(y, s),
        "gauc": within,
        "gauc_groups": counted,
        "logloss": logloss(y, s),
        "calibration": calibration(y, s),
        "ceiling": {"auc": auc(y, t), "gauc": gauc(y, t, g)[0], "logloss": logloss(y, t)},
        "baselines": {"popularity": {"auc": auc(y, p), "gauc": gauc(y, p, g)[0]}},
    }
    assert {type(found[key]) for key in ("rows", "positives", "gauc_groups")} == {int}


def test_undefined_task_metrics_are_none():
    nothing = dict.fromkeys(("auc", "gauc", "gauc_groups", "logloss", "calibration", "ceiling"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unlabelled = task_metrics([np.nan, np.nan], [0.1, 0.2])
        negative = task_metrics(
            [0, 0, np.nan], [0.5, 0.5, 0.1], groups=[1, 1, 2], baselines={"b": [1, 2, 3]}
        )
    assert unlabelled == {"rows": 0, "positives": 0, **nothing, "baselines": {}}
    assert negative == {
        "rows": 2,
        "positives": 0,
        **nothing,
        "gauc_groups": 0,
        "logloss": pytest.approx(np.log(2)),
        "baselines": {"b": {"auc": None, "gauc": None}},
    }


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
