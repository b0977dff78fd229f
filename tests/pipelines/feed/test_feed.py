"""The feed: every row once, a reproducible order, resuming from any position."""

import dataclasses
import itertools
import json
import threading
import time
import weakref

import pytest

from pipelines.common.errors import PipelineError
from pipelines.feed import LENGTHS, Feed, Position
from pipelines.feed.chunk import Chunk
from pipelines.feed.prefetch import Prefetcher
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import CANDIDATE_MASK
from tests.support import feeds, shop

BATCH = 7
REQUESTS = pytest.mark.parametrize("request_column", ["request", None])


@REQUESTS
@pytest.mark.parametrize("rows", [1, 40, 70, 9999])
def test_every_row_once_and_requests_whole(fitted, split, table, rows, request_column):
    feed = Feed(split, fitted, request_column, BATCH, seed=5, shuffle_rows=rows)
    batches = list(feed)
    found = feeds.order_of(batches)
    assert sorted(found) == feeds.requests_of(table, request_column)
    assert found != feeds.requests_of(table, request_column)
    assert {batch.requests for batch in batches[:-1]} == {BATCH}
    assert feed.steps(0) == len(batches)


@REQUESTS
def test_without_a_seed_the_order_is_that_of_the_files(fitted, split, table, request_column):
    feed = Feed(split, fitted, request_column, BATCH, shuffle_rows=40)
    assert feeds.order_of(feed) == feeds.requests_of(table, request_column)


def test_the_order_follows_from_seed_and_epoch(fitted, split, table):
    def shuffled(seed, epoch, rows=9999):
        feed = Feed(split, fitted, "request", BATCH, seed=seed, shuffle_rows=rows)
        return feeds.order_of(feed.batches(Position(epoch)))

    assert shuffled(5, 0) == shuffled(5, 0)
    assert len({str(shuffled(seed, epoch)) for seed in (5, 6) for epoch in (0, 1, 2)}) == 6
    # One row group at a time, and not always the first one first.
    first_group = feeds.requests_of(table)[:11]
    assert {shuffled(5, epoch, 1)[0] in first_group for epoch in range(9)} == {True, False}
    # An epoch's first batches come from all over the split, not from its first rows.
    assert len({shuffled(5, epoch)[0] for epoch in range(20)}) > 10


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("request_column", "candidates", "lengths"),
    [
        *itertools.product(["request"], [13, 9999], [None, LENGTHS]),
        # Rows alone are never too many candidates, so that these two give the same batches.
        (None, 13, LENGTHS),
        (None, 9999, None),
    ],
)
def test_feed_resumes_from_any_position(fitted, split, request_column, candidates, lengths):
    """From every kind: first and last inside a row group, at its edge, across files, the end."""
    feed = Feed(split, fitted, request_column, BATCH, 5, 40, candidates=candidates, lengths=lengths)
    every = [batch for epoch in (0, 1) for batch in feed.batches(Position(epoch))]
    assert len({str(batch.position) for batch in every}) == len(every)
    steps = feed.steps(0)
    assert every[steps - 1].position == Position(1)
    assert every[-1].position == Position(2)
    cut_short = min(batch.requests for batch in every[: steps - 1]) < BATCH
    assert cut_short == (candidates == 13 and request_column is not None)
    # A chunk is a row group here: those between its first and its last position are left out.
    chunks = [[chunk for chunk, _ in batch.position.places] for batch in every]
    for number in range(len(every) - 1):
        if chunks[number - 1] == chunks[number] == chunks[number + 1]:
            continue
        position = Position.from_dict(json.loads(json.dumps(every[number].position.to_dict())))
        rest = list(feed.batches(position))
        expected = every[number + 1 : steps if number + 1 < steps else None]
        for one, other in zip(rest, expected, strict=True):
            feeds.expect_equal(one, other)


@pytest.mark.parametrize("candidates", [1, 5, 13, 29, 10_000])
@pytest.mark.parametrize("seed", [None, 3])
def test_padded_candidates_of_a_batch_are_limited(fitted, split, table, candidates, seed):
    feed = Feed(split, fitted, "request", BATCH, seed, 40, candidates, LENGTHS)
    batches = list(feed)
    assert sorted(feeds.order_of(batches)) == feeds.requests_of(table)
    sizes = [batch.inputs[CANDIDATE_MASK].shape for batch in batches]
    assert all(b * t <= candidates or b == 1 for b, t in sizes)
    assert {t for _, t in sizes} <= set(LENGTHS)
    assert feed.steps(0) == len(batches)


def lanes_of(feed, indices, epoch=0):
    shards = dataclasses.replace(feed, shard_indices=indices)
    return list(shards.batches(Position(epoch)))


@pytest.mark.sampled(2)
@REQUESTS
@pytest.mark.parametrize("candidates", [13, 9999])
@pytest.mark.parametrize("shards", [2, 3, 7])
def test_shards_share_the_rows(fitted, table, tmp_path, shards, candidates, request_column):
    """Over several row-group layouts, with more shards than row groups too."""
    for number, sizes in enumerate(([11] * 9, [1, 29, 2, 1, 3], [5] * 3)):
        split = feeds.write_split(tmp_path / str(number), table, sizes)
        feed = Feed(split, fitted, request_column, BATCH, 5, 40, candidates, None, shards)
        for epoch in (0, 1):
            apart = [lanes_of(feed, (index,), epoch) for index in range(shards)]
            found = [rows for shard in apart for rows in feeds.order_of(shard)]
            assert sorted(found) == feeds.requests_of(table, request_column)
            assert {len(shard) for shard in apart} == {feed.steps(epoch)}
            assert {shard[-1].position for shard in apart} == {Position(epoch + 1)}
            for shard in apart:
                assert all(batch.requests == 1 for batch in shard if not batch.rows)
            # One worker with all shards sees in each step what workers with one each do.
            together = lanes_of(feed, tuple(range(shards)), epoch)
            assert len(together) == feed.steps(epoch)
            for step, batch in enumerate(together):
                expected = [rows for shard in apart for rows in feeds.rows_of(shard[step]) if rows]
                assert feeds.rows_of(batch) == expected


def test_empty_shards_start_no_thread(fitted, table, split, monkeypatch):
    """So that what a thousand shards cost is what the data cost."""
    started = []

    class Noted(Prefetcher):
        def __init__(self, items, ahead, name):
            started.append(name)
            super().__init__(items, ahead, name)

    monkeypatch.setattr("pipelines.feed.feed.Prefetcher", Noted)
    every = Feed(split, fitted, "request", BATCH, 5, shards=997, shard_indices=tuple(range(997)))
    assert sorted(feeds.order_of(every)) == feeds.requests_of(table)
    assert started.count("chunks") == len(split.footers)


def test_several_shards_resume_from_any_position(fitted, split):
    feed = Feed(split, fitted, "request", BATCH, 5, 40, 13, LENGTHS, 4, (1, 3))
    every = list(feed)
    assert not every[-1].rows or not every[-2].rows or len(every) == feed.steps(0)
    for number, batch in enumerate(every[:-1], 1):
        rest = list(feed.batches(Position.from_dict(batch.position.to_dict())))
        for one, other in zip(rest, every[number:], strict=True):
            feeds.expect_equal(one, other)


@pytest.mark.parametrize("indices", [(), (2,), (0, 0), (-1,)])
def test_invalid_shard_indices_are_refused(fitted, split, indices):
    with pytest.raises(ValueError, match=r"`shard_indices` must be .* Received: shard_indices="):
        Feed(split, fitted, "request", BATCH, shards=2, shard_indices=indices)


def test_two_chunks_are_in_memory_at_most(fitted, split, monkeypatch):
    alive = []
    original = Chunk.of

    def counted(*arguments, **options):
        chunk = original(*arguments, **options)
        end = time.monotonic() + 5
        while sum(ref() is not None for ref in alive) > 1 and time.monotonic() < end:
            time.sleep(0.001)
        alive.append(weakref.ref(chunk))
        assert sum(ref() is not None for ref in alive) <= 2
        return chunk

    monkeypatch.setattr(Chunk, "of", counted)
    feed = Feed(split, fitted, "request", BATCH, seed=5, shuffle_rows=1)
    assert sum(batch.requests for batch in feed) == 53
    assert len(alive) == len(split.footers) == 5


def test_threads_end_with_the_stream(fitted, split):
    def threads():
        return {t.name for t in threading.enumerate()} & {"batches", "chunks"}

    feed = Feed(split, fitted, "request", BATCH, seed=5, shuffle_rows=1, shards=2)
    feed = dataclasses.replace(feed, shard_indices=(0, 1))
    with feed.batches() as stream:
        next(stream)
        assert "batches" in threads()  # the chunks may all be decoded
    assert threads() == set()
    list(feed)
    assert threads() == set()
    next(iter(feed))
    assert threads() == set()


def test_no_rows_is_an_error(fitted, table, tmp_path):
    shop.write(tmp_path / "a.parquet", [table.slice(0, 0)])
    with pytest.raises(PipelineError, match="holds no rows"):
        Feed(DataSplit(tmp_path), fitted, "request", BATCH).batches()
