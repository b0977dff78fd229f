"""Definitions and columns that cannot work are refused with their key."""

import pyarrow as pa
import pytest
from pydantic import ValidationError

from pipelines.engines import LOCAL
from pipelines.ingest.aggregates.add_aggregates import with_aggregates
from pipelines.ingest.log_state import LogState
from serving.state.definitions.aggregate_options import AggregateOptions, check_aggregates
from serving.state.errors import DataError
from tests.support.event_logs import source, table

COUNT = {"name": "clicks", "kind": "count", "by": "user", "time": "time"}
RATE = {**COUNT, "kind": "rate", "of": "click"}
COLUMNS = pa.schema(
    {
        "user": "string",
        "time": "int64",
        "click": "int8",
        "at": pa.timestamp("ms"),
        "name": "string",
        "flag": "bool",
    }
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**COUNT, "of": "click"}, "'count' takes no `of`"),
        ({**COUNT, "kind": "rate"}, "'rate' needs `of`, the column of its values"),
        ({**COUNT, "last": 5}, "`last` belongs to 'rate', 'sum', 'mean', 'distinct' without"),
        ({**RATE, "last": 5, "window": "7d"}, "without a `window`"),
        ({**COUNT, "prior_rate": 0.1}, "belong to kind = 'rate'"),
        ({**COUNT, "by": ()}, "`by` must name one column, or several different"),
        ({**COUNT, "by": ("user", "user")}, "`by` must name one column, or several different"),
        ({**COUNT, "window": "7 days"}, "`window` must be a whole number with its unit"),
        ({**COUNT, "resolution": "1h"}, "`resolution` is the step of a `window`"),
        ({**COUNT, "window": "7d", "forget_after": "30d"}, "both end the past; give one of them"),
        ({**COUNT, "forget_after": "soon"}, "`forget_after` must be a whole number with its unit"),
        ({**COUNT, "delay": 0.0}, "`delay` must be a whole number with its unit"),
    ],
)
def test_definition_that_means_nothing_is_refused(options, message) -> None:
    with pytest.raises(ValidationError, match=message):
        AggregateOptions(**options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": "usr"}, r"'usr' \(data.aggregates 'clicks': by\).*Did you mean 'user'"),
        (
            {"time": "flag"},
            r"'flag' \(data.aggregates 'clicks': time\): expected times.* type bool",
        ),
        ({"where": "name"}, r"where\): expected a label of 0, 1 or null, received string"),
        ({"kind": "sum", "of": "name"}, r"of\): expected a number, received string"),
        ({"name": "click"}, "would replace a column of that name"),
        ({"window": "7d"}, r"window: the column 'time' holds int64, so give a number in its unit"),
        ({"time": "at", "delay": 7.0}, r"delay: the column 'at' holds timestamp.*such as '7d'"),
    ],
)
def test_column_of_the_wrong_type_is_refused(change, message) -> None:
    with pytest.raises(DataError, match=message):
        check_aggregates(COLUMNS, [AggregateOptions(**{**COUNT, **change})], "here")


@pytest.mark.parametrize(
    ("column", "values", "options", "message"),
    [
        ("time", None, COUNT, r"'time' \(data.aggregates: time\): .* must have no nulls"),
        ("click", 2, RATE, "'click': expected a label of 0, 1 or null .* received 2"),
        ("price", 2.0**40, {**COUNT, "kind": "sum", "of": "price"}, "numbers below 2.40 .1e12."),
    ],
)
def test_value_that_cannot_count_is_an_error(tmp_path, column, values, options, message) -> None:
    rows = table(rows=7)
    place = rows.column_names.index(column)
    wrong = pa.array([values] * 7, rows.schema.field(column).type)
    files = source(rows.set_column(place, column, wrong), request=None)
    with pytest.raises(DataError, match=message):
        with_aggregates(files, [AggregateOptions(**options)], LOCAL, tmp_path, LogState())
