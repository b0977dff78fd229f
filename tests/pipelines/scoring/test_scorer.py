"""Scores of the training path do not depend on the batches."""

import numpy as np
import pytest

from pipelines.feed import Feed
from pipelines.feed.batch import BatchSize
from pipelines.scoring import scorer as scorer_module
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from tests.support import shop


@pytest.fixture(scope="module")
def scorer(fitted):
    return Scorer(shop.model(fitted))


def alone(scorer, fitted, table):
    """Each row as a request of its own, one at a time."""
    rows = [scorer.score_table(table.slice(i, 1), fitted, None) for i in range(table.num_rows)]
    return {task: np.concatenate([row[task] for row in rows]) for task in rows[0]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("at_once", "candidates"), [(1, 7), (3, 99), (4096, 7), (4096, 65_536)])
@pytest.mark.parametrize("request_column", ["request", None])
def test_rows_score_alike_in_any_batch(
    fitted, scorer, monkeypatch, at_once, candidates, request_column
):
    monkeypatch.setattr(scorer_module, "AT_ONCE", BatchSize(at_once, candidates))
    table = shop.table(13, seed=3, unknown=True)
    found = scorer.score_table(table, fitted, request_column)
    expected = alone(scorer, fitted, table)
    assert list(found) == ["click", "buy"]
    for task, scores in expected.items():
        assert found[task].shape == (table.num_rows,)
        assert found[task].dtype == "float32"
        np.testing.assert_allclose(found[task], scores, rtol=0, atol=2e-6)
    assert len(np.unique(found["click"].round(4))) > table.num_rows / 2


def test_labelled_scores_come_with_their_labels(fitted, scorer, tmp_path):
    table = shop.table(17, seed=3)
    shop.write(tmp_path / "a.parquet", [table])
    dataset = Feed(DataSplit(tmp_path), fitted, "request", batch_size=5)
    done = []
    labels, scores = scorer.score_labelled(dataset, done.append)
    expected = scorer.score_table(table, fitted, "request")
    for task in ("click", "buy"):
        np.testing.assert_allclose(scores[task], expected[task], rtol=0, atol=2e-6)
    click = [np.nan if v is None else v for v in table["click"].to_pylist()]
    bought = [
        np.nan if v is None or not m else v
        for v, m in zip(table["bought"].to_pylist(), table["clicked"].to_pylist(), strict=True)
    ]
    np.testing.assert_array_equal(labels["click"], np.array(click, "float32"))
    np.testing.assert_array_equal(labels["buy"], np.array(bought, "float32"))
    assert sum(done) == table.num_rows
    assert len(done) == 4
