"""Models of tasks in an order need labels of all of them in the same rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.storage.dataset import DataSplit
from pipelines.training.model import check_same_rows
from recsys_attn.models import aitm, esmm, mlp
from recsys_attn.schema import Categorical, Schema, Task

SCHEMA = Schema((Categorical("item", size=3),), (Task("click"), Task("buy")))
CLICKS = [1, 1, 0, 0, None]


@pytest.fixture
def split(tmp_path: Path) -> Callable[..., DataSplit]:
    """Writes rows of few row groups."""

    def write(click: list[int | None], buy: list[int | None]) -> DataSplit:
        table = pa.table(
            {"click": click, "buy": buy}, pa.schema([(n, "int8") for n in ("click", "buy")])
        )
        pq.write_table(table, tmp_path / "part-00000.parquet", row_group_size=2)
        return DataSplit(tmp_path)

    return write


def test_labels_of_other_rows_are_refused(split: Callable[..., DataSplit]) -> None:
    """Row by row: as many labels of both tasks, and fewer purchases than clicks, are not enough."""
    model = esmm(SCHEMA, width=2, tower_units=())
    check_same_rows(model, split(CLICKS, [0, 1, 0, 0, None]))
    with pytest.raises(PipelineError, match=r"both or of neither.*alone in 2 rows\."):
        check_same_rows(model, split(CLICKS, [0, None, 0, 0, 0]))
    with pytest.raises(PipelineError, match=r"in their order.*'buy' happened and.* in 1 row\."):
        check_same_rows(model, split(CLICKS, [0, 0, 1, 0, None]))


def test_a_mask_hides_labels(split: Callable[..., DataSplit], tmp_path: Path) -> None:
    masked = Schema(SCHEMA.features, (Task("click", mask="shown"), Task("buy", mask="shown")))
    split(CLICKS, [0, 1, 1, 0, None])
    file = tmp_path / "part-00000.parquet"
    shown = pa.array([True, True, False, True, True])
    pq.write_table(pq.read_table(file).append_column("shown", shown), file)
    check_same_rows(esmm(masked, width=2, tower_units=()), DataSplit(tmp_path))


def test_other_models_may_have_unknown_labels(split: Callable[..., DataSplit]) -> None:
    rows = split(CLICKS, [None] * 5)
    check_same_rows(mlp(SCHEMA, width=2, units=(2,)), rows)
    check_same_rows(aitm(SCHEMA, tower_units=(2,), order_penalty=0), rows)
    assert aitm(SCHEMA, tower_units=(2,)).same_rows
