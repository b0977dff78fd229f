"""HR, NDCG, MRR and MAP against every order of small lists, and in parts."""

import doctest
import itertools
import math

import numpy as np
import pytest

from pipelines.metrics import MeansAtK, at_k

AT = (1, 3, 10)


def of_list(labels, k):
    """The metrics of one list in its order."""
    top, positives = labels[:k], sum(labels)
    hits = [i for i, label in enumerate(top, 1) if label]
    best = sum(1 / math.log2(1 + i) for i in range(1, min(positives, k) + 1))
    return {
        f"hr@{k}": float(bool(hits)),
        f"ndcg@{k}": sum(1 / math.log2(1 + i) for i in hits) / best,
        f"mrr@{k}": 1 / hits[0] if hits else 0.0,
        f"map@{k}": sum(sum(labels[:i]) / i for i in hits) / min(positives, k),
    }


def by_all_orders(labels, scores):
    """The mean of the metrics over all orders in which no score rises."""
    orders = [
        [labels[i] for i in order]
        for order in itertools.permutations(range(len(labels)))
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]
    found = [{name: x for k in AT for name, x in of_list(o, k).items()} for o in orders]
    return {name: np.mean([metrics[name] for metrics in found]) for name in found[0]}


def requests(count=40, longest=6, levels=3):
    """Labels and scores of short lists, of which most have ties and some have one class."""
    rng = np.random.default_rng(5)
    for _ in range(count):
        size = rng.integers(1, longest + 1)
        yield rng.integers(0, 2, size), rng.integers(0, levels, size) / levels


def test_metrics_are_the_means_over_all_orders_of_ties():
    found, expected = MeansAtK(AT), []
    for number, (labels, scores) in enumerate(requests()):
        found.add(labels, scores, np.full(len(labels), number))
        if 0 < labels.sum() < labels.size:
            expected.append(by_all_orders(labels.tolist(), scores))
    assert 10 < len(expected) == found.requests < 40
    for name, value in found.metrics().items():
        np.testing.assert_allclose(value, np.mean([e[name] for e in expected]), rtol=1e-12)


def test_parts_and_unknown_labels_change_nothing():
    """At once, in any order of rows, and beside candidates whose label is not known."""
    rows = [(y, z, n) for n, (ys, zs) in enumerate(requests()) for y, z in zip(ys, zs, strict=True)]
    labels, scores, numbers = map(np.array, zip(*rows, strict=True))
    parts, whole = MeansAtK(AT), MeansAtK(AT)
    for number in np.unique(numbers):
        of = numbers == number
        parts.add(labels[of], scores[of], numbers[of])
    unknown = np.full(len(rows), np.nan)
    order = np.random.default_rng(7).permutation(2 * len(rows))
    whole.add(
        np.concatenate([labels, unknown])[order],
        np.concatenate([scores, 1 - scores])[order],
        np.concatenate([numbers, numbers])[order],
    )
    assert whole.requests == parts.requests
    for name, value in parts.metrics().items():
        np.testing.assert_allclose(whole.metrics()[name], value, rtol=1e-12)


def test_equal_scores_are_a_random_order():
    """One positive among 21: its place is uniform."""
    top = MeansAtK([10])
    top.add(np.arange(21) == 4, np.zeros(21), np.zeros(21))
    metrics = top.metrics()
    places = np.arange(1, 11)
    np.testing.assert_allclose(metrics["hr@10"], 10 / 21, rtol=1e-12)
    np.testing.assert_allclose(metrics["ndcg@10"], (1 / np.log2(places + 1)).sum() / 21, rtol=1e-12)
    np.testing.assert_allclose(metrics["mrr@10"], (1 / places).sum() / 21, rtol=1e-12)
    assert metrics["map@10"] == pytest.approx(metrics["mrr@10"], rel=1e-12)


def test_requests_of_one_class_leave_nothing_to_measure():
    top = MeansAtK([5])
    top.add([1, 1, 0, 0, np.nan], [0.1, 0.2, 0.3, 0.4, 0.5], [0, 0, 1, 1, 1])
    assert (top.requests, set(top.metrics().values())) == (0, {None})
    with pytest.raises(ValueError, match=r"positive numbers of places. Received: at=\[0\]"):
        MeansAtK([0])
    with pytest.raises(ValueError, match="`requests` must have one value per label"):
        top.add([1, 0], [0.1, 0.2], [1])


def test_the_examples_in_the_docstrings_run():
    assert doctest.testmod(at_k).failed == 0
