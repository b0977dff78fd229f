"""A user's metrics get the labelled rows, and their requests where they ask for them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipelines.metrics import METRICS, own_metrics
from tests.support import registries

LABELS = [1, np.nan, 0, 1]
SCORES = [0.9, 0.1, 0.4, 0.2]
REQUESTS = np.array([0, 0, 1, 1])


@pytest.fixture(autouse=True)
def _restored(tmp_path: Path) -> Iterator[None]:
    with registries.restored(tmp_path):
        yield


def test_rows_without_a_label_are_left_out() -> None:
    @METRICS.register("sums")
    def sums(labels, scores, requests, *, factor=1.0):
        return factor * (100 * labels.sum() + 10 * scores.sum() + requests.sum())

    found = own_metrics({"sums": {"factor": 2.0}}, LABELS, SCORES, REQUESTS)
    np.testing.assert_allclose(found["sums"], 2 * (200 + 15 + 2))


def test_a_metric_of_probabilities_is_none_for_other_scores() -> None:
    METRICS.register("sum", needs_probabilities=True)(lambda labels, scores: scores.sum())
    wanted = ({"sum": {}}, LABELS, SCORES, REQUESTS)
    assert own_metrics(*wanted) == {"sum": 1.5}
    assert own_metrics(*wanted, probabilities=False) == {"sum": None}


def test_undefined_value_is_none_and_no_number_an_error() -> None:
    METRICS.register("nan")(lambda labels, scores: float("nan"))
    METRICS.register("list")(lambda labels, scores: [1.0])
    assert own_metrics({"nan": {}}, LABELS, SCORES, REQUESTS) == {"nan": None}
    with pytest.raises(ValueError, match=r"'list' must return one number. Received: \[1.0\]"):
        own_metrics({"list": {}}, LABELS, SCORES, REQUESTS)
