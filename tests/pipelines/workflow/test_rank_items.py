"""Ranks with the model of a run: other catalogues, and the errors."""

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.workflow.rank_items import rank
from pipelines.workflow.steps import Steps
from tests.support import next_items
from tests.support.once import once


def train(folder: Path) -> None:
    next_items.prepare(folder)
    next_items.steps(folder).train()


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    return next_items.steps(once(tmp_path_factory, "next_items_trained", train))


@pytest.fixture
def users(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"history": [[100, 101], []]}), tmp_path / "users.parquet")
    return tmp_path / "users.parquet"


def test_items_of_a_file_are_ranked(steps: Steps, users: Path, tmp_path: Path) -> None:
    """New items need only an id; known ones have the features of the item table."""
    whole, some = tmp_path / "whole.parquet", tmp_path / "some.parquet"
    assert rank(steps, users, whole, 29, whole=True) == 2
    catalogue = tmp_path / "catalogue.parquet"
    pq.write_table(pa.table({"item": [110, 7, 103]}), catalogue)
    assert rank(steps, users, some, 5, catalogue=catalogue, whole=True, rank_by="next") == 2
    scores = {(r["request"], r["item"]): r["score"] for r in pq.read_table(whole).to_pylist()}
    found = pq.read_table(some).to_pylist()
    assert [row["rank"] for row in found] == [1, 2, 3] * 2
    assert {row["item"] for row in found} == {110, 7, 103}
    for row in found:
        if row["item"] != 7:
            assert row["score"] == pytest.approx(scores[row["request"], row["item"]], abs=1e-6)


def test_what_cannot_be_ranked_is_refused(steps: Steps, users: Path, tmp_path: Path) -> None:
    target = tmp_path / "best.parquet"
    with pytest.raises(PipelineError, match=r"no column 'item' of candidates.*--catalogue"):
        rank(steps, users, target, 3)
    with pytest.raises(PipelineError, match=r"expected one of the tasks next.*Did you mean 'next'"):
        rank(steps, users, target, 3, whole=True, rank_by="nex")
    data = steps.experiment.data.model_copy(update={"items": None})
    without = dataclasses.replace(
        steps, experiment=steps.experiment.model_copy(update={"data": data})
    )
    with pytest.raises(PipelineError, match=r"add the table `data\.items`"):
        rank(without, users, target, 3)
    assert not target.exists()
