"""Statistics of heads with known attention, and their functions."""

import numpy as np
import pytest

from pipelines.audit.functions import functions
from tests.pipelines.audit.records import ENCODER, TARGET, record, softmax, statistics

ENTRIES, LENGTH = 60, 12


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def names(place, head, untrained=None) -> list[str]:
    return [each.name for each in functions(place, head, untrained) if each.learned]


def test_confidence_and_entropy_are_those_of_a_loop(rng):
    weights = softmax(rng.normal(size=(ENTRIES, 2, LENGTH, LENGTH)))
    keys = np.arange(LENGTH) < rng.integers(2, LENGTH + 1, ENTRIES)[:, None]
    weights = weights * keys[:, None, None]
    weights /= weights.sum(axis=-1, keepdims=True)
    found = statistics(
        record(ENCODER, weights[:20], keys[:20]),
        *[record(ENCODER, weights[20:], keys[20:], requests=np.arange(20, ENTRIES))],
    )
    for head in range(2):
        rows = [
            weights[entry, head, query][keys[entry]]
            for entry in range(ENTRIES)
            for query in np.flatnonzero(keys[entry])
        ]
        entropies = [-(row * np.log(row)).sum() / np.log(len(row)) for row in rows]
        assert found[head].queries == len(rows)
        assert found[head].confidence.value == pytest.approx(np.mean([r.max() for r in rows]))
        assert found[head].uniform.value == pytest.approx(np.mean([1 / len(r) for r in rows]))
        assert found[head].entropy.value == pytest.approx(np.mean(entropies), abs=1e-5)


def test_a_head_of_the_event_before_is_found(rng):
    before = np.eye(LENGTH, k=-1)
    before[0, 0] = 1  # the first event has none before it
    noise = softmax(rng.normal(size=(ENTRIES, LENGTH, LENGTH)))
    weights = np.stack([0.9 * before + 0.1 * noise, noise], axis=1)
    positional, random = statistics(record(ENCODER, weights))
    assert names(ENCODER, positional) == ["the event before"]
    assert positional.offset == -1
    assert positional.offset_share.value == pytest.approx(1)
    assert names(ENCODER, random) == []


@pytest.mark.parametrize("back", [1, 2])
def test_an_offset_is_a_share_of_the_queries_that_have_it(rng, back):
    """Histories of 2 to 5 events: the first `back` queries of each have no such event."""
    lengths = rng.integers(back + 1, 6, ENTRIES)
    keys = np.arange(LENGTH) < lengths[:, None]
    places = np.maximum(np.arange(LENGTH) - back, 0)
    weights = np.eye(LENGTH)[places] * keys[:, None, :, None]
    (encoder,) = statistics(record(ENCODER, weights, keys))
    assert names(ENCODER, encoder) == ["the event before", "2 events before"][back - 1 : back]
    latest = np.eye(LENGTH)[np.maximum(lengths - 1 - back, 0)][:, None, None]
    (target,) = statistics(record(TARGET, np.repeat(latest, 2, axis=2), keys))
    assert names(TARGET, target)[0] == f"event {back + 1} from the latest"
    assert encoder.offset_share.value == target.offset_share.value == 1


def test_a_relation_must_beat_the_best_fixed_place(rng):
    kinds = rng.integers(0, 3, (ENTRIES, LENGTH))
    same = (kinds[:, :, None] == kinds[:, None]) & ~np.eye(LENGTH, dtype=bool)
    noise = softmax(rng.normal(size=(ENTRIES, LENGTH, LENGTH)))
    like = softmax(np.where(same, 4.0, 0.0) + rng.normal(size=same.shape))
    head, random = statistics(
        record(ENCODER, np.stack([like, noise], axis=1), relations={"same kind": same})
    )
    assert names(ENCODER, head) == ["same kind"]
    assert head.relations["same kind"].value > 0.5
    assert names(ENCODER, random) == []
    # All events are alike: to attend a like one is no function.
    alike = np.broadcast_to(~np.eye(LENGTH, dtype=bool), same.shape)
    (head, _) = statistics(
        record(ENCODER, np.stack([like, noise], axis=1), relations={"same kind": alike})
    )
    assert "same kind" not in names(ENCODER, head)


def test_equal_shares_are_diffuse_and_hit_nothing():
    weights = np.full((ENTRIES, 1, 3, LENGTH), 1 / LENGTH)
    every = np.ones((ENTRIES, 3, LENGTH), bool)
    (head,) = statistics(record(TARGET, weights, relations={"any": every}))
    assert names(TARGET, head) == ["diffuse"]
    assert head.offset_share.value == 0
    assert head.relations["any"].value == -1
    assert np.isnan(head.recency.value)


def test_recent_events_are_found_with_their_sign():
    weights = softmax(np.arange(LENGTH) * 0.3) * np.ones((ENTRIES, 1, 2, 1))
    for attended, name, value in (
        (weights, "recent events", 1),
        (weights[..., ::-1], "old events", -1),
    ):
        (head,) = statistics(record(TARGET, attended))
        assert head.recency.value == pytest.approx(value)
        assert name in names(TARGET, head)


def test_a_rule_of_an_untrained_model_is_no_function(rng):
    weights = softmax(rng.normal(size=(ENTRIES, 1, 2, LENGTH)) * 0.1)
    (head,) = statistics(record(TARGET, weights))
    assert [each.name for each in functions(TARGET, head)] == ["diffuse"]
    assert names(TARGET, head, untrained=head) == []


def test_padding_and_single_events_do_not_count():
    keys = np.zeros((4, LENGTH), bool)
    keys[0, :5], keys[1, :1] = True, True
    weights = np.where(keys, 1, 0)[:, None, None] / np.maximum(keys.sum(1), 1)[:, None, None, None]
    (head,) = statistics(record(TARGET, weights, keys))
    assert head.queries == 1
    assert head.uniform.value == pytest.approx(0.2)
