"""Parts of the rows, merged in any order, give the metrics of the whole to the last bit."""

import doctest
import itertools
from functools import reduce

import numpy as np
import pytest

from pipelines.metrics import MeansAtK, ranked, scored_rows, task_metrics
from pipelines.metrics.cluster_sums import ClusterSums
from pipelines.metrics.intervals import delong_of, interval_of
from pipelines.metrics.probability import (
    calibration_error_of,
    calibration_of,
    logloss_of,
    recalibrated_entropy_of,
)
from pipelines.metrics.ranked import LabelCounts, Ranked
from pipelines.metrics.score_order import auc_by_group, average_precision_of
from pipelines.metrics.scored_rows import whole_groups
from tests.pipelines.metrics.samples import LEVELS, sample

RNG = np.random.default_rng(17)
OF_COUNTS = (logloss_of, calibration_of, calibration_error_of, recalibrated_entropy_of)


def parts_of(rows, pieces):
    """The numbers of the rows, divided at random."""
    dealt = RNG.integers(pieces, size=rows)
    parts = [np.flatnonzero(dealt == piece) for piece in range(pieces)]
    return [parts[piece] for piece in RNG.permutation(pieces)]  # some may be empty


def metrics_of(counts, sums, within, requests):
    """All numbers of merged states."""
    nothing = Ranked(np.zeros(0), np.zeros(0, int), counts)
    return {
        "counts": [array.tolist() for array in (counts.scores, counts.positive, counts.negative)],
        "auc": (counts.auc, *interval_of(*sums.auc(counts)), *delong_of(counts)),
        "average precision": average_precision_of(counts),
        **{metric.__name__: metric(counts) for metric in OF_COUNTS},
        "intervals": (*interval_of(*sums.logloss()), *interval_of(*sums.calibration())),
        "groups": [within.scores.tolist(), nothing.groups_of(within).tolist()],
        "top": requests.metrics(),
    }


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("pieces", [2, 7, 40])
@pytest.mark.filterwarnings("ignore:.*not defined.*")
def test_merged_parts_equal_the_whole(levels, pieces):
    labels, scores, users = sample(levels)
    scores = scores.astype(np.float32)
    requests = users * 7 + RNG.integers(7, size=labels.size)  # of one user each

    def found(parts, of_requests):
        counts = reduce(LabelCounts.merged, (LabelCounts.of(labels[p], scores[p]) for p in parts))
        each = [(Ranked.of(labels[p], scores[p], counts), p) for p in parts]
        sums = [ClusterSums.of(one, users[p], 31, scores[p]) for one, p in each]
        within = reduce(LabelCounts.merged, (one.within(users[p]) for one, p in each))
        tops = []
        for rows in of_requests:
            tops.append(MeansAtK((1, 3)))
            tops[-1].add(labels[rows], scores[rows], requests[rows])
        top = reduce(MeansAtK.merged, tops)
        return metrics_of(counts, reduce(ClusterSums.merged, sums), within, top)

    everything = [np.arange(labels.size)]
    dealt = RNG.integers(pieces, size=requests.max() + 1)  # requests stay whole
    whole_requests = [np.flatnonzero(dealt[requests] == piece) for piece in range(pieces)]
    assert found(parts_of(labels.size, pieces), whole_requests) == found(everything, everything)


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_the_size_of_a_part_changes_nothing(order, monkeypatch):
    labels, scores, users = sample(13)
    users[users == 5] = 4  # numbers without rows
    if order == "sorted":
        users = np.sort(users)
    groups = np.where(users == 3, np.nan, users)
    requests = users * 3 + np.arange(users.size) % 3
    requests = np.sort(requests) if order == "sorted" else requests
    options = {"groups": groups, "requests": requests, "train_rate": 0.3}
    whole = task_metrics(labels, scores, **options)
    monkeypatch.setattr(scored_rows, "_PART", 53)
    assert task_metrics(labels, scores, **options) == whole


def test_merged_counts_are_those_of_the_docstring():
    assert doctest.testmod(ranked).failed == 0
    assert doctest.testmod(ranked).attempted == 3


def test_parts_of_whole_groups_hold_each_row_once():
    for groups in (np.sort(RNG.integers(31, size=997)), RNG.integers(31, size=997)):
        parts = [np.arange(997)[rows] for rows in whole_groups(groups, most=100)]
        assert len(parts) > 5
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(997))
        for part, after in itertools.pairwise(parts):
            assert groups[part].max() < groups[after].min()
        assert max(part.size for part in parts) < 200


def test_groups_of_parts_have_their_own_auc():
    labels, scores, users = sample(13)
    every, some = Ranked.of(labels, scores), users < 11
    whole = auc_by_group(every, users)
    part = auc_by_group(Ranked.of(labels[some], scores[some], every.counts), users[some])
    np.testing.assert_array_equal(part.values, whole.values[: part.values.size])
