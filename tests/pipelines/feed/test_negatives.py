"""Drawn candidates of a feed: which they are, their features, and when they are drawn again."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from pipelines.features import FittedFeatures
from pipelines.feed import LENGTHS, Feed, ItemCatalogue, Negatives, Position
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import CANDIDATE_MASK
from tests.support import next_items
from tests.support.feeds import expect_equal
from tests.support.once import once


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "next_items", next_items.prepare) / "run"


@pytest.fixture(scope="module")
def fitted(run: Path) -> FittedFeatures:
    return FittedFeatures.load(run / "features")


@pytest.fixture
def feed(run: Path, fitted: FittedFeatures) -> Feed:
    negatives = Negatives(ItemCatalogue(fitted.items, fitted), 5, "uniform", seed=3)
    train = DataSplit(run / "data" / "train")
    return Feed(
        train, fitted, "request", 31, seed=3, shuffle_rows=40, lengths=LENGTHS, negatives=negatives
    )


def drawn_items(feed: Feed, batch) -> list[tuple[int, set[int], list[int]]]:
    """The positive, the history and the drawn candidates of each request, as ids of the model."""
    item, history = batch.inputs["item"], batch.inputs["history"]
    mask = batch.blocks[CANDIDATE_MASK]
    return [
        (int(item[r][mask[r] & ~batch.drawn[r]][0]), set(history[r]) - {0}, item[r][batch.drawn[r]])
        for r in range(len(mask))
    ]


def chosen_by(feed: Feed, by: str, **options) -> Feed:
    negatives = dataclasses.replace(feed.negatives, by=by, **options)
    return dataclasses.replace(feed, negatives=negatives)


@pytest.mark.parametrize("by", ["uniform", "popularity", "batch"])
def test_drawn_items_are_neither_candidates_nor_seen(feed: Feed, by: str) -> None:
    requests = 0
    for batch in chosen_by(feed, by):
        positives = {positive for positive, _, _ in drawn_items(feed, batch)}
        for positive, seen, drawn in drawn_items(feed, batch):
            known = [item for item in drawn if item > 1]  # others share the id of unknown ones
            assert len(set(known)) == len(known)
            assert not {positive, *seen} & set(known)
            assert by != "batch" or set(drawn) <= positives
            assert by == "batch" or len(drawn) == 5
            requests += 1
        labels, weights = batch.labels["next"], batch.weights["next"]
        np.testing.assert_array_equal(labels[batch.drawn], 0)
        np.testing.assert_array_equal(weights, batch.blocks[CANDIDATE_MASK])
        np.testing.assert_array_equal(labels.sum(axis=1), 1)
    assert requests == feed.split.rows


def test_draws_are_the_same_for_a_model_without_the_history(
    feed: Feed, fitted: FittedFeatures
) -> None:
    without = fitted.without(tuple(f.name for f in fitted.schema.features if f.side == "context"))
    catalogue = ItemCatalogue(fitted.items, without, whole=fitted.schema)
    negatives = dataclasses.replace(feed.negatives, catalogue=catalogue)
    other = dataclasses.replace(feed, fitted=without, negatives=negatives)
    assert other.fitted.schema.histories != feed.fitted.schema.histories
    for mine, theirs in zip(feed, other, strict=True):
        np.testing.assert_array_equal(mine.inputs["item"], theirs.inputs["item"])
        np.testing.assert_array_equal(mine.drawn, theirs.drawn)


def test_drawn_candidates_have_their_items_features(feed: Feed, fitted: FittedFeatures) -> None:
    encoded = fitted.encoded_items()
    by_id = {int(i): row for row, i in enumerate(encoded["item"]) if i > 1}
    batch = next(iter(feed))
    request, place = np.nonzero(batch.drawn & (batch.inputs["item"] > 1))
    rows = [by_id[int(i)] for i in batch.inputs["item"][request, place]]
    for name in ("tags", "price"):
        np.testing.assert_array_equal(batch.inputs[name][request, place], encoded[name][rows])
    assert np.isnan(encoded["price"]).any()


def test_history_is_drawn_where_it_may_be(feed: Feed) -> None:
    catalogue = dataclasses.replace(feed.negatives.catalogue, unseen=False)
    hits = [
        bool(seen & set(drawn))
        for batch in chosen_by(feed, "uniform", catalogue=catalogue)
        for _, seen, drawn in drawn_items(feed, batch)
    ]
    assert any(hits)


def test_draws_change_with_epoch_and_seed_only(feed: Feed) -> None:
    first = list(feed)
    for one, other in zip(first, feed, strict=True):
        expect_equal(one, other)
    again = list(feed.batches(first[1].position))  # as a resumed training
    for one, other in zip(first[2:], again, strict=True):
        expect_equal(one, other)
    epoch = next(iter(feed.batches(Position(1))))
    seed = next(iter(chosen_by(feed, "uniform", seed=4)))
    assert not np.array_equal(seed.inputs["item"], first[0].inputs["item"])
    assert not np.array_equal(epoch.inputs["item"], first[0].inputs["item"])


@pytest.mark.parametrize("by", ["uniform", "batch"])
def test_two_workers_draw_as_one_with_two_shards(feed: Feed, by: str) -> None:
    feed = dataclasses.replace(chosen_by(feed, by), shards=2, shuffle_rows=1)
    together = dataclasses.replace(feed, shard_indices=(0, 1))
    apart = [dataclasses.replace(feed, shard_indices=(shard,)) for shard in (0, 1)]
    for both, *own in zip(together, *apart, strict=True):
        blocks = [part.blocks for part in own if part.blocks[CANDIDATE_MASK].any()]
        for name, block in both.blocks.items():
            expected = np.concatenate([part[name] for part in blocks])
            np.testing.assert_array_equal(block, expected, err_msg=name)


def test_steps_count_the_drawn_candidates(feed: Feed) -> None:
    for candidates in (31 * 6, 6, 50):
        short = dataclasses.replace(feed, candidates=candidates)
        assert len(list(short)) == short.steps(0)
