"""Relevance of a planted model, as metrics.json has it."""

import json

import numpy as np
import pytest

from pipelines.audit.relevance import relevance
from pipelines.audit.sampled_rows import drawn_rows, rows_of
from pipelines.feed import Feed
from pipelines.storage.dataset import DataSplit
from tests.pipelines.audit import planted
from tests.support import shop

METHODS = (
    "leave_one_out",
    "gradient_times_input",
    "integrated_gradients",
    "chefer",
    "attention",
)


@pytest.fixture(scope="module")
def table():
    return planted.table()


@pytest.fixture(scope="module")
def fitted(table):
    return planted.fitted(table)


@pytest.fixture(scope="module")
def found(table, fitted):
    done = []
    clusters = table["user"].to_numpy()
    found = relevance(planted.model(fitted), table, fitted, clusters, advance=done.append)
    assert sum(done) == len(table)
    return json.loads(json.dumps(found, allow_nan=False))


def test_planted_events_are_found_by_every_method(found, table, fitted):
    click = found["click"]
    assert click["rows"] == planted.ROWS
    assert click["missed"]["integrated_gradients"] < 1e-4
    events = click["kinds"]["events/history"]
    assert events["units"] == [str(number) for number in range(1, planted.LENGTH + 1)]
    (inputs,) = rows_of(table, fitted)
    like = planted.like_events(inputs)
    assert events["count"] == [(np.sum(inputs["seen"] != 0, axis=1) > u).sum() for u in range(7)]
    assert tuple(events["shares"]) == METHODS
    for method in METHODS:
        assert np.sum(events["shares"][method]) == pytest.approx(1)
        np.testing.assert_allclose(events["shares"][method], events["shares"]["leave_one_out"])
    for entry in events["methods"].values():
        assert entry["size"] == pytest.approx([1, 1, 1])
        assert entry["signed"] == pytest.approx([1, 1, 1])
    assert events["verdict"]["attention"] == "as well"
    # Taking the like events first loses their number at once, in random order in time.
    curve, random = events["curves"]["gradient_times_input"], events["curves"]["random"]
    assert curve == sorted(curve)
    assert all(own > chance for own, chance in zip(curve, random, strict=True))
    assert curve[-1] <= like.sum() / planted.ROWS
    assert events["means"]["leave_one_out"][0] == pytest.approx(
        sum(row[row_seen.size - 1] for row, row_seen in ends(like, inputs)) / events["count"][0]
    )


def ends(like, inputs):
    """Whether each event of rows with a history is like, cut after the last event."""
    seen = [row[row != 0] for row in inputs["seen"]]
    return [(row, own) for row, own in zip(like, seen, strict=True) if own.size]


def test_fields_are_the_features_and_histories(found):
    fields = found["click"]["kinds"]["fields"]
    assert fields["units"] == ["item", "device", "history"]
    shares = fields["shares"]["leave_one_out"]
    assert shares[0] == pytest.approx(0.5)  # without the item, no event is like it
    assert shares[1] == 0
    assert "attention" not in fields["methods"]


def test_a_task_with_a_constant_logit_has_no_relevance(found):
    for kind in found["buy"]["kinds"].values():
        assert kind["ordered_rows"] == 0
        assert kind["verdict"]["believe"] is None
        assert not np.any(kind["means"]["leave_one_out"])
        assert not np.any(kind["curves"]["leave_one_out"])


def test_a_single_row_has_no_interval(table, fitted):
    model = planted.model(fitted)
    (row,) = np.flatnonzero(table["user"].to_numpy() == 7)[:1]  # with a history
    found = relevance(model, table.slice(row, 1), fitted, np.zeros(1, int))["click"]
    assert len(found["kinds"]["events/history"]["curves"]["random"]) == 5
    for kind in found["kinds"].values():
        assert kind["verdict"] == {"believe": None, "attention": None, "difference": None}
    json.dumps(found, allow_nan=False)
    assert relevance(model, table.slice(0, 0), fitted, np.zeros(0, int)) == {}


def test_rows_are_drawn_in_their_order(tmp_path, fitted):
    features = shop.fitted()
    table = shop.table(61, seed=11)
    starts = np.flatnonzero(np.diff(table["request"].to_numpy(), prepend=-1))
    half = int(starts[30])
    pieces = [table.slice(0, half), table.slice(half)]
    shop.write(tmp_path / "test" / "part-00000.parquet", pieces)
    feed = Feed(DataSplit(tmp_path / "test"), features, "request")
    drawn, found = drawn_rows(feed, 23, seed=5)
    assert len(np.unique(drawn)) == 23
    assert drawn.tolist() == sorted(drawn)
    assert drawn[0] < half <= drawn[-1]
    assert found["item"].to_pylist() == table["item"].take(drawn).to_pylist()
    everything, _ = drawn_rows(feed, 10_000, seed=5)
    assert everything.tolist() == list(range(len(table)))
