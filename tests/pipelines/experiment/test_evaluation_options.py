"""Columns of slices that can decide nothing are refused with the experiment."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.common.errors import PipelineError
from tests.support.experiments import load


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ("device", r"`evaluation.slices`: expected true or false or a list. Received: \"device\""),
        (["device", "device"], r"`slices` must name each column once"),
        (["device", "click"], r"`evaluation.slices\[1\]` names 'click', a label or mask"),
    ],
)
def test_wrong_columns_of_slices_are_refused(tmp_path: Path, slices: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        load(tmp_path, evaluation__slices=slices)


def test_slices_need_probabilities(tmp_path: Path) -> None:
    bpr = [(f'name = "{task}"\n', f'name = "{task}"\nloss = "bpr"\n') for task in
           ("click", "conversion")]  # fmt: skip
    with pytest.raises(PipelineError, match=r"`evaluation.slices` needs a task with probabilities"):
        load(tmp_path, *bpr, evaluation__slices=True)


def test_columns_of_slices_are_kept_in_the_data(tmp_path: Path) -> None:
    options = load(tmp_path, evaluation__slices=["hour"]).evaluation
    assert options.columns["evaluation.slices[0]"] == "hour"
    assert options.searched(["price"]) == ["hour"]
    assert load(tmp_path, evaluation__slices=True).evaluation.searched(["price"]) == ["price"]
    assert load(tmp_path).evaluation.searched(["price"]) == []
