"""A context that changes within a request is found, as by a loop."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.ingest.context import check_context
from pipelines.storage.columns import arrow_type
from recsys_attn.schema import Categorical, Schema, is_listed
from tests.support import shop

CONTEXT = [feature for feature in shop.SCHEMA.features if feature.side == "context"]


@pytest.fixture(scope="module")
def table():
    table = shop.table(53, seed=5)
    runs = np.diff(np.flatnonzero(np.diff(table["request"].to_numpy(), prepend=-1)))
    assert runs.max() > 3
    return table


def changed(table, name, row, value):
    values = table[name].to_pylist()
    values[row] = value
    column = pa.array(values, table[name].type)
    return table.set_column(table.column_names.index(name), name, column)


def inner_rows(table):
    """Rows whose row before and row after are of the same request."""
    request = table["request"].to_pylist()
    triples = zip(request, request[1:], request[2:], strict=False)
    return [row + 1 for row, (a, b, c) in enumerate(triples) if a == b == c]


@pytest.mark.parametrize("feature", CONTEXT, ids=lambda feature: feature.name)
def test_any_change_is_found_as_by_a_loop(table, feature):
    rng = np.random.default_rng(3)
    values = table[feature.name].to_pylist()
    for row in rng.choice(inner_rows(table), 11, replace=False):
        for value in values[:23]:
            other = changed(table, feature.name, row, value)
            same = plain(value, feature) == plain(values[row], feature)
            found = error(other)
            assert (found is None) == same, (value, values[row])
            if not same:
                request = table["request"][int(row)].as_py()
                assert f"here: column '{feature.name}' (a feature of the context)" in found
                assert f"in the request {request}, row {1000 + row};" in found
                assert ('side = "candidate"' in found) == (feature.kind != "sequence")


def plain(value, feature):
    """Missing values in one form: null and the empty string, null and the empty list."""
    if is_listed(feature):
        return [item or None if feature.dtype == "string" else item for item in value or []]
    return (value or None) if feature.dtype == "string" else value


def error(table):
    try:
        check_context(table, shop.SCHEMA, "request", "here", 1000)
    except PipelineError as found:
        return str(found)
    return None


def test_contexts_may_differ_between_requests(table):
    request = pa.array(np.arange(table.num_rows))
    rows = table.set_column(0, "request", request)
    for first, second in itertools.pairwise(inner_rows(table)[:4]):
        check_context(rows.take([first, second]), shop.SCHEMA, "request", "here")
    check_context(table.slice(0, 0), shop.SCHEMA, "request", "here")
    check_context(changed(table, "item", inner_rows(table)[0], 7), shop.SCHEMA, "request", "here")


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("int64", [None, -(2**63)]), ("string", ["", None]), ("int64", [-(2**63), None])],
)
@pytest.mark.parametrize("listed", [False, True])
def test_every_missing_value_is_the_same_context(dtype, values, listed):
    feature = Categorical("x", side="context", dtype=dtype, multivalued=listed)
    schema = Schema((feature, Categorical("item")), ())
    column = [[value] for value in values] if listed else values
    rows = {"x": pa.array(column, arrow_type(dtype, listed)), "request": [7, 7], "item": ["a", "b"]}
    check_context(pa.table(rows), schema, "request", "here")
