"""The choice of the columns that name the row of an outcome."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.outcomes.layout import Layout
from pipelines.outcomes.row_keys import choose_keys
from pipelines.outcomes.row_times import RowTimes
from recsys_attn.schema import Categorical
from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.definition import StateDefinition

FEATURES = (Categorical("item", dtype="int64"), Categorical("brand"))
LAYOUT = Layout("request", RowTimes(), pa.schema({"user": pa.string()}), FEATURES, ("click",), ())
KINDS = {"user": pa.string(), "item": pa.int64(), "brand": pa.string(), "time": pa.int64()}


def state(*keys: str) -> StateDefinition:
    """A state with a count by each column."""
    counts = [AggregateOptions(name=key, kind="count", by=key, time="time") for key in keys]
    return StateDefinition(tuple(counts), (), pa.schema(KINDS))


@pytest.mark.parametrize(
    ("by", "columns", "item", "keys", "expected"),
    [
        ((), ["request", "item"], None, ("user", "item"), ("request", "item")),
        ((), ["user", "item"], None, ("user", "item"), ("user", "item")),
        ((), ["user", "item"], "item", ("user", "item", "brand"), ("user", "item")),
        ((), ["request", "item"], "item", (), ("request", "item")),
        (("brand",), ["request", "item"], "item", (), ("brand",)),
    ],
)
def test_keys_are_those_of_the_run(
    by: tuple[str, ...],
    columns: list[str],
    item: str | None,
    keys: tuple[str, ...],
    expected: tuple[str, ...],
) -> None:
    definition = state(*keys) if keys else None
    assert choose_keys(by, columns, LAYOUT, item, definition) == expected


def test_keys_that_no_run_names_are_asked_for() -> None:
    with pytest.raises(PipelineError, match=r"--by: name the columns.*request, user, item, brand"):
        choose_keys((), ["user"], LAYOUT, None, state("user", "item", "brand"))
    with pytest.raises(PipelineError, match=r"no column 'itm'.*Did you mean 'item'"):
        choose_keys(("itm",), [], LAYOUT, None, None)
