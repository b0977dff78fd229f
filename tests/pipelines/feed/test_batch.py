"""Batches: size limits, padding, and the values of their requests."""

import itertools

import numpy as np
import pytest

from pipelines.feed import LENGTHS, Batch
from pipelines.feed.batch import BatchSize, assemble
from pipelines.feed.chunk import transform
from recsys_attn.schema import CANDIDATE_MASK
from tests.support.feeds import requests_of


def expect_requests(batch, fitted, table, chosen):
    """Every value of a batch is that of its request's row."""
    requests = requests_of(table)
    candidates = fitted.apply(table, "candidate")
    contexts = fitted.apply(table, "context")
    labels = {"click": table["click"], "buy": table["bought"]}
    for i, request in enumerate(chosen):
        rows = requests[request]
        for j in range(batch.inputs[CANDIDATE_MASK].shape[1]):
            real = j < len(rows)
            assert batch.inputs[CANDIDATE_MASK][i, j] == real
            row = int(rows[j]) if real else int(rows[0])
            for name, values in candidates.items():
                np.testing.assert_array_equal(batch.inputs[name][i, j], values[row])
            for task, label in labels.items():
                value = label[row].as_py() if real else None
                if task == "buy" and not table["clicked"][row].as_py():
                    value = None
                assert batch.weights[task][i, j] == (value is not None)
                assert batch.labels[task][i, j] == (value or 0)
        for name, values in contexts.items():
            np.testing.assert_array_equal(batch.inputs[name][i], values[rows[0]], err_msg=name)


@pytest.mark.parametrize(("lengths", "length"), [(None, 5), ((1, 7, 13), 7), ((1, 2), 5)])
def test_assemble_equals_a_loop_over_requests(fitted, table, lengths, length):
    chunk = transform(table, fitted, "request")
    chosen = np.array([11, 2, 29, 2, 47])
    batch = Batch(assemble([(chunk, chosen)], BatchSize(5, lengths=lengths)), chunk.layout)
    assert {len(requests_of(table)[r]) for r in chosen} > {5}
    assert batch.inputs[CANDIDATE_MASK].shape == (5, length)
    expect_requests(batch, fitted, table, chosen)
    assert batch.rows == sum(len(requests_of(table)[r]) for r in chosen)
    assert batch.requests == 5
    for arrays in (batch.labels, batch.weights):
        assert {name: array.dtype for name, array in arrays.items()} == {
            "click": "float32",
            "buy": "float32",
        }


def test_requests_of_several_chunks_make_one_batch(fitted, table):
    chunk = transform(table, fitted, "request")
    chosen = np.array([11, 2, 29, 2, 47, 3])
    copied = chunk.take(chosen[2:4])
    pieces = [(chunk, chosen[:2]), (copied, np.arange(2)), (chunk, chosen[4:])]
    blocks = assemble(pieces, BatchSize(7, lengths=LENGTHS))
    expect_requests(Batch(blocks, chunk.layout), fitted, table, chosen)


def cut_by_loop(lengths, size):
    """One request more for as long as the padded batch is not too large."""
    cuts, begin = [], 0
    while begin < len(lengths):
        end = begin + 1
        while end < len(lengths) and end - begin < size.requests:
            padded = int(size.padded(max(lengths[begin : end + 1]))) * (end + 1 - begin)
            if padded > size.candidates:
                break
            end += 1
        cuts.append((begin, end))
        begin = end
    return cuts


@pytest.mark.parametrize("lengths", [None, (1, 2, 3, 5, 7), LENGTHS])
@pytest.mark.parametrize("candidates", [1, 10, 29, 10_000])
def test_cut_takes_as_many_requests_as_fit(candidates, lengths):
    found = np.random.default_rng(3).integers(1, 12, 101)
    found[37] = 97
    size = BatchSize(7, candidates, lengths)
    cuts = list(size.cut(found))
    assert cuts == cut_by_loop(found, size)
    for begin, end in cuts:
        padded = (end - begin) * size.padded(found[begin:end].max())
        assert padded <= candidates or end == begin + 1
    # What may still grow is left out, and nothing else is cut differently.
    for end in range(len(found)):
        early = list(size.cut(found[:end], more=True))
        assert early == cuts[: len(early)]
        assert end - (early[-1][1] if early else 0) <= 7
    assert list(size.cut(found[:0])) == []


def test_padded_takes_the_next_length():
    assert LENGTHS[:9] == (1, 2, 3, 4, 6, 8, 12, 16, 24)
    assert all(after <= 2 * before for before, after in itertools.pairwise(LENGTHS))
    wanted = np.array([0, 1, 2, 5, 6, 7, 99])
    for size, expected in (
        (BatchSize(1, lengths=LENGTHS), [1, 1, 2, 6, 6, 8, 128]),
        (BatchSize(1, lengths=(3, 6)), [3, 3, 3, 6, 6, 7, 99]),
        (BatchSize(1), [1, 1, 2, 5, 6, 7, 99]),
    ):
        np.testing.assert_array_equal(size.padded(wanted), expected)
