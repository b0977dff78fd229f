"""Functions of heads: rules that their attention follows, and that an untrained model does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipelines.audit.head_statistics import HeadStatistics
from pipelines.metrics.intervals import Interval
from recsys_attn.models.attention_places import AttentionPlace

POSITIONAL, RELATED, RECENT, DIFFUSE = 0.9, 0.1, 0.5, 0.95


class Function(NamedTuple):
    """A rule that a head follows.

    Attributes:
        name: The rule, such as `same category`.
        measured: The number behind it, with its interval.
        learned: Whether the untrained model does not follow it.
    """

    name: str
    measured: Interval
    learned: bool


def functions(
    place: AttentionPlace,
    trained: HeadStatistics,
    untrained: HeadStatistics | None = None,
    keys: tuple[str, ...] = (),
) -> list[Function]:
    """The functions of a head.

    - one place: of the queries that have a key at one offset, or of one field, at least 90 % give
    it the largest share;
    - a relation: the key with the largest share has it at least 10 % more often than the best of
    fixed offsets and chance;
    - recent or old events: the rank correlation of share and time is at least .5 or at most -.5;
    - diffuse: the entropy is at least 95 % of that of equal shares.

    Args:
        place: The place of the head.
        trained: The statistics of the head.
        untrained: Those of the same head before the training: its functions are none.
        keys: Names of the fields that are keys.

    Source: Voita et al., ACL 2019, arXiv 1905.09418, with the sanity check of Adebayo et al.,
    "Sanity Checks for Saliency Maps", NeurIPS 2018, arXiv 1810.03292.
    """
    before = set() if untrained is None else {name for name, _ in _rules(place, untrained, keys)}
    return [
        Function(name, measured, name not in before)
        for name, measured in _rules(place, trained, keys)
    ]


def _rules(
    place: AttentionPlace, head: HeadStatistics, keys: tuple[str, ...]
) -> Iterator[tuple[str, Interval]]:
    if head.offset_share.value >= POSITIONAL:
        yield one_place(place, head.offset, keys), head.offset_share
    for name, excess in head.relations.items():
        if excess.value >= RELATED and excess.low > 0:
            yield name, excess
    if head.recency is not None:
        if head.recency.value >= RECENT and head.recency.low > 0:
            yield "recent events", head.recency
        if head.recency.value <= -RECENT and head.recency.high < 0:
            yield "old events", head.recency
    if head.entropy.value >= DIFFUSE:
        yield "diffuse", head.entropy


def one_place(place: AttentionPlace, offset: int, keys: tuple[str, ...] = ()) -> str:
    """The name of one offset, or of one field."""
    if place.kind == "encoder":
        side = "before" if offset < 0 else "after"
        if not offset:
            return "the event itself"
        return f"the event {side}" if abs(offset) == 1 else f"{abs(offset)} events {side}"
    if place.history:
        return "the latest event" if not offset else f"event {1 - offset} from the latest"
    return keys[offset] if offset < len(keys) else f"key {offset + 1}"
