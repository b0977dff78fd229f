"""Batches of requests: every row once, no request torn apart, the same order for the same seed."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from pipelines.data import DataSplit
from pipelines.dataset import RequestDataset, assemble, cut, transform
from pipelines.errors import PipelineError
from recsys_attn.schema import CANDIDATE_MASK
from tests.support import shop

REQUESTS = 53
BATCH = 7


@pytest.fixture(scope="module")
def fitted():
    return shop.fitted()


@pytest.fixture(scope="module")
def table():
    """Each row has a rating of its own, so that it is known again in a batch."""
    table = shop.table(REQUESTS, seed=8)
    ratings = pa.array(np.arange(table.num_rows), pa.float32())
    return table.set_column(table.column_names.index("rating"), "rating", ratings)


@pytest.fixture(scope="module")
def split(table, tmp_path_factory):
    """Row groups of about ten requests in two files."""
    starts = np.flatnonzero(np.diff(table["request"].to_numpy(), prepend=-1))
    cuts = [*starts[::10], table.num_rows]
    groups = [table.slice(a, b - a) for a, b in itertools.pairwise(cuts)]
    folder = tmp_path_factory.mktemp("train")
    shop.write(folder / "part-00000.parquet", groups[:4])
    shop.write(folder / "part-00001.parquet", groups[4:])
    return DataSplit(folder)


def rows_of(batch):
    """The row numbers of a batch, request by request."""
    ratings, mask = batch.inputs["rating"], batch.inputs[CANDIDATE_MASK]
    return [tuple(row[inside].astype(int)) for row, inside in zip(ratings, mask, strict=True)]


def order(dataset):
    return [rows for batch in dataset for rows in rows_of(batch)]


def requests_of(table, request="request"):
    if request is None:
        return [(row,) for row in range(table.num_rows)]
    values = table[request].to_numpy()
    return [tuple(np.flatnonzero(values == value)) for value in dict.fromkeys(values)]


@pytest.mark.parametrize("request_column", ["request", None])
@pytest.mark.parametrize("groups", [1, 2, 99])
def test_every_row_comes_once_and_no_request_is_torn(fitted, split, table, groups, request_column):
    dataset = RequestDataset(
        split, fitted, request_column, BATCH, seed=5, shuffle_row_groups=groups
    )
    found = order(dataset)
    assert sorted(found) == requests_of(table, request_column)
    assert found != requests_of(table, request_column)
    assert max(len(rows_of(batch)) for batch in dataset) == BATCH


@pytest.mark.parametrize("request_column", ["request", None])
def test_without_a_seed_the_order_is_that_of_the_files(fitted, split, table, request_column):
    dataset = RequestDataset(split, fitted, request_column, BATCH)
    assert order(dataset) == requests_of(table, request_column)


def test_the_order_follows_from_seed_and_epoch(fitted, split, table):
    def shuffled(seed, epoch):
        return order(RequestDataset(split, fitted, "request", BATCH, seed=seed, epoch=epoch))

    assert shuffled(5, 0) == shuffled(5, 0)
    orders = [shuffled(seed, epoch) for seed in (5, 6) for epoch in (0, 1, 2)]
    assert len({str(order) for order in orders}) == 6
    # One row group at a time, and not always the first one first.
    one_by_one = RequestDataset(split, fitted, "request", BATCH, seed=5, shuffle_row_groups=1)
    first_group = requests_of(table)[:10]
    assert {order(one_by_one)[0] in first_group for one_by_one.epoch in range(9)} == {True, False}
    # An epoch's first batches come from all over the split, not from its first rows.
    dataset = RequestDataset(split, fitted, "request", BATCH, seed=5)
    firsts = {rows_of(next(iter(dataset)))[0] for dataset.epoch in range(20)}
    assert len(firsts) > 10


@pytest.mark.parametrize("seed", [None, 3])
def test_tensorflow_yields_the_same_batches(fitted, split, seed):
    dataset = RequestDataset(split, fitted, "request", BATCH, seed=seed)
    expected = list(dataset)
    stream = dataset.tensorflow()
    for _ in range(2):  # each epoch starts again
        found = list(stream.as_numpy_iterator())
        assert len(found) == len(expected)
        for batch, (inputs, labels, weights) in zip(expected, found, strict=True):
            for one, other in zip(batch, (inputs, labels, weights), strict=True):
                assert one.keys() == other.keys()
                for name in one:
                    np.testing.assert_array_equal(one[name], other[name], err_msg=name)
                    assert one[name].dtype == other[name].dtype
    assert dataset.rows_read == sum(batch.rows for batch in expected)
    dataset.epoch = 1
    again = next(stream.as_numpy_iterator())[0]["rating"]
    same = np.array_equal(again, expected[0].inputs["rating"])
    assert same == (seed is None)


def test_assemble_equals_a_loop_over_requests(fitted, table):
    columns = transform(table, fitted, "request")
    requests = requests_of(table)
    chosen = np.array([11, 2, 29, 2, 47])
    batch = assemble(columns, chosen)
    longest = max(len(requests[r]) for r in chosen)
    assert len({len(requests[r]) for r in chosen}) > 1
    candidates = fitted.apply(table, "candidate")
    contexts = fitted.apply(table, "context")
    labels = {"click": table["click"], "buy": table["bought"]}
    for i, request in enumerate(chosen):
        rows = requests[request]
        for j in range(longest):
            real = j < len(rows)
            assert batch.inputs[CANDIDATE_MASK][i, j] == real
            if real:
                for name, values in candidates.items():
                    np.testing.assert_array_equal(batch.inputs[name][i, j], values[rows[j]])
            for task, label in labels.items():
                value = label[int(rows[j])].as_py() if real else None
                if task == "buy" and real and not table["clicked"][int(rows[j])].as_py():
                    value = None
                assert batch.weights[task][i, j] == (value is not None)
                assert batch.labels[task][i, j] == (value or 0)
        for name, values in contexts.items():
            np.testing.assert_array_equal(batch.inputs[name][i], values[rows[0]], err_msg=name)
    assert batch.rows == sum(len(requests[r]) for r in chosen)
    assert {name: array.dtype for name, array in batch.labels.items()} == {
        "click": "float32",
        "buy": "float32",
    }


@pytest.mark.parametrize("candidates", [1, 5, 13, 29, 10_000])
def test_batches_hold_no_more_padded_candidates_than_they_may(fitted, split, table, candidates):
    dataset = RequestDataset(split, fitted, "request", BATCH, candidates=candidates)
    assert order(dataset) == requests_of(table)
    sizes = [batch.inputs[CANDIDATE_MASK].shape for batch in dataset]
    assert all(b * t <= candidates or b == 1 for b, t in sizes)
    assert max(b for b, _ in sizes) <= BATCH
    full = next(iter(dataset)).inputs[CANDIDATE_MASK]
    assert candidates < 10_000 or len(full) == BATCH


def test_cut_takes_as_many_requests_as_fit():
    lengths = np.array([2, 3, 1, 1, 97, 1, 1, 1, 1, 5])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    requests = np.array([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    parts = [part.tolist() for part in cut(starts, requests, most=3, candidates=10)]
    assert parts == [[9, 8], [7, 6, 5], [4], [3, 2, 1], [0]]
    assert [p.tolist() for p in cut(starts, requests[:0], most=3, candidates=10)] == []


@pytest.mark.parametrize("kind", [pa.int8(), pa.bool_(), pa.float32(), pa.float64()])
def test_labels_of_any_kind(fitted, table, kind):
    expected = transform(table, fitted, "request").labels["click"]
    position = table.column_names.index("click")
    other = table.set_column(position, "click", table["click"].cast(kind))
    np.testing.assert_array_equal(transform(other, fitted, "request").labels["click"], expected)


def test_a_null_mask_hides_the_label(fitted, table):
    position = table.column_names.index("clicked")
    hidden = table.set_column(position, "clicked", pa.nulls(table.num_rows, pa.bool_()))
    assert np.isnan(transform(hidden, fitted, "request").labels["buy"]).all()


def test_only_what_is_needed_is_read(fitted, split):
    names = RequestDataset(split, fitted, "request", BATCH).column_names
    assert names == [
        *[f.name for f in fitted.schema.features],
        "click",
        "bought",
        "clicked",
        "request",
    ]


def test_a_damaged_file_is_named_in_training_too(fitted, split, table, tmp_path):
    shop.write(tmp_path / "a.parquet", [table])
    shop.write(tmp_path / "b.parquet", [table])
    dataset = RequestDataset(DataSplit(tmp_path), fitted, "request", BATCH)
    stream = iter(dataset.tensorflow())
    next(stream)
    shop.damage(tmp_path / "b.parquet", "cut")
    with pytest.raises(Exception, match=r"b\.parquet"):
        list(stream)
    assert isinstance(dataset.failure, PipelineError)
    assert "b.parquet" in str(dataset.failure)


def test_no_rows_is_an_error(fitted, table, tmp_path):
    shop.write(tmp_path / "a.parquet", [table.slice(0, 0)])
    with pytest.raises(PipelineError, match="holds no rows"):
        RequestDataset(DataSplit(tmp_path), fitted, "request", BATCH).tensorflow()
