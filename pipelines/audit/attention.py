"""The audit of a model's attention: what its heads look at, do and repeat."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.audit.functions import functions, one_place
from pipelines.audit.head_statistics import Codes, HeadStatistics, HeadTotals
from pipelines.audit.maps import EventShares, FieldMap, of_pairs
from pipelines.audit.recorder import AttentionRecord, Recorder
from pipelines.audit.redundancy import ALIKE, HeadLikeness, Redundancy, most_alike
from pipelines.audit.removal import WithoutHeads
from pipelines.feed.chunk import Chunk
from pipelines.metrics.intervals import auc_influence, cluster_codes, difference, with_ends
from recsys_attn.attention import HeadsCall
from recsys_attn.embeddings import example_inputs
from recsys_attn.models import RankingModel
from recsys_attn.models.attention_places import (
    AttentionPlace,
    interaction_fields,
    watch_attention,
)
from recsys_attn.schema import CANDIDATE_MASK

Arrays = Mapping[str, NDArray[Any]]
REMOVABLE = ("encoder", "target_attention", "interaction", "attention")


@dataclass
class _Place:
    """The statistics of one place of attention, over all rows."""

    heads: int
    weighs: bool
    likeness: HeadLikeness = field(default_factory=HeadLikeness)
    totals: HeadTotals = field(default_factory=HeadTotals)
    shares: EventShares = field(default_factory=EventShares)
    fields: FieldMap = field(default_factory=FieldMap)
    experts: HeadLikeness = field(default_factory=HeadLikeness)

    def add(self, record: AttentionRecord) -> None:
        self.likeness.add(record)
        if record.place.kind == "gate":  # whose keys are experts, and its values their outputs
            outputs = np.swapaxes(record.value, 1, 2)
            first = record.queries[:, :1]
            self.experts.add(record._replace(output=outputs, queries=first, weights=None))
        if not self.weighs:
            return
        self.totals.add(record)
        if record.place.kind == "target_attention":
            self.shares.add(record)
        elif record.place.kind == "interaction":
            self.fields.add(record)


def audit_attention(
    model: RankingModel,
    untrained: RankingModel,
    chunk: Chunk,
    labels: Arrays,
    clusters: NDArray[Any],
    advance: Callable[[int], None] = lambda rows: None,
) -> dict[str, Any]:
    """Measures the events that each head attends, the similarity of heads, and each head's effect.

    Args:
        model: The trained model.
        untrained: The same model before its training: a function that it has too is none.
        chunk: Held-out rows.
        labels: 0, 1 or nan for unknown of each row, by task.
        clusters: Number of each row's user or request; nan: alone.
        advance: Is called with the number of rows done.

    Returns:
        `places`, one entry for each place of attention: `place`, `kind`, `history`, its `heads`,
        the `likeness` of each pair of them, and, where the mechanism makes weights, the mean
        attention of `fields`, of pairs of them (`of_pairs`) or of `events`. And `gates`, the shares
        of the experts of each row, by task.
    """
    codes = cluster_codes(clusters, np.zeros(len(clusters)))
    of_requests = codes[chunk.starts[:-1]]
    places, gates = _recorded(model, chunk, advance)
    before, _ = _recorded(untrained, chunk, advance)
    heads = {place: totals.heads for place, totals in places.items() if place.kind in REMOVABLE}
    lost = _removals(WithoutHeads(model, chunk, heads), heads, labels, codes, advance)
    keys = interaction_fields(model) if _interacts(places) else ()
    return {
        "requests": len(of_requests),
        "rows": int(chunk.starts[-1]),
        "places": [
            _entry(place, totals, before[place], lost.get(place), of_requests, keys)
            for place, totals in places.items()
        ],
        "gates": gates,
    }


def removable_heads(model: RankingModel) -> dict[AttentionPlace, int]:
    """The number of heads of each place of attention, those of gates left out."""
    heads: dict[AttentionPlace, int] = {}

    def visit(place: AttentionPlace, call: HeadsCall) -> HeadsCall:
        if place.kind in REMOVABLE:
            heads[place] = call.output.shape[2]
        return call

    with watch_attention(model, visit):
        model(example_inputs(model.schema))
    return heads


def number_of_passes(heads: int) -> int:
    """The number of passes over the rows, given the number of removed heads."""
    return 3 + heads


def _interacts(places: Mapping[AttentionPlace, _Place]) -> bool:
    return any(place.kind == "interaction" for place in places)


def _recorded(
    model: RankingModel, chunk: Chunk, advance: Callable[[int], None]
) -> tuple[dict[AttentionPlace, _Place], dict[str, NDArray[Any]]]:
    places: dict[AttentionPlace, _Place] = {}
    gates: dict[str, list[NDArray[Any]]] = {}
    for batch, attended, of_batch in Recorder(model, chunk).batches():
        for record in attended:
            if record.place not in places:
                places[record.place] = _Place(record.output.shape[2], record.weights is not None)
            places[record.place].add(record)
        is_candidate = batch.blocks[CANDIDATE_MASK]
        for task, gate in of_batch.items():
            gates.setdefault(task, []).append(gate[is_candidate])
        advance(batch.rows)
    return places, {task: np.concatenate(parts) for task, parts in gates.items()}


def _removals(
    score: WithoutHeads,
    heads: Mapping[AttentionPlace, int],
    labels: Arrays,
    codes: Codes,
    advance: Callable[[int], None],
) -> dict[AttentionPlace, list[dict[str, list[float] | None]]]:
    """By place and head, the AUC that each task loses without the head, with its interval."""
    whole = score({})
    effects: dict[AttentionPlace, list[dict[str, list[float] | None]]] = {}
    for place, count in heads.items():
        for head in range(count):
            without, lost = score({place: [head]}), dict[str, list[float] | None]()
            advance(len(codes))
            for task, label in labels.items():
                known = ~np.isnan(label)
                lost[task] = _lost(
                    label[known], whole[task][known], without[task][known], codes[known]
                )
            effects.setdefault(place, []).append(lost)
    return effects


def _lost(
    labels: NDArray[Any], scores: NDArray[Any], others: NDArray[Any], codes: Codes
) -> list[float] | None:
    if not 0 < labels.sum() < labels.size:
        return None
    codes = np.unique(codes, return_inverse=True)[1]
    loss = difference(auc_influence(labels, scores, codes), auc_influence(labels, others, codes))
    # One user or request says nothing of others.
    return None if np.isnan(loss.low) else with_ends(loss)


def _entry(
    place: AttentionPlace,
    totals: _Place,
    before: _Place,
    lost: Sequence[Mapping[str, list[float] | None]] | None,
    of_requests: Codes,
    keys: tuple[str, ...],
) -> dict[str, Any]:
    alike = totals.likeness.redundancy()
    entry: dict[str, Any] = {"place": str(place), "kind": place.kind, "history": place.history}
    heads: list[dict[str, Any]] = [
        _likeness(alike, head, lost[head] if lost else {}) for head in range(totals.heads)
    ]
    between = totals.fields.mean() if totals.weighs and place.kind == "interaction" else None
    paired = None if between is None else of_pairs(between, len(keys))
    entry["likeness"] = {
        name: None if matrix is None else np.asarray(matrix).tolist()
        for name, matrix in alike._asdict().items()
    }
    if totals.weighs and place.kind != "gate":
        names = keys if place.kind == "interaction" else ()
        if paired is not None:
            names = tuple(" and ".join(pair) for pair in itertools.combinations(keys, 2))
        statistics = zip(
            totals.totals.heads(of_requests), before.totals.heads(of_requests), strict=True
        )
        for head, (trained, untrained) in zip(heads, statistics, strict=True):
            head |= _statistics(place, trained, untrained, names)
        if place.kind == "target_attention":
            entry["events"] = [share.entry for share in totals.shares.shares(of_requests)]
        elif between is not None:
            entry["fields"], entry["of_pairs"] = list(keys), paired is not None
            entry["map"] = (between if paired is None else paired).tolist()
    if place.kind == "gate":
        entry["experts"] = totals.experts.redundancy().cka.tolist()
    return {**entry, "heads": heads}


def _likeness(
    alike: Redundancy, head: int, lost: Mapping[str, list[float] | None]
) -> dict[str, Any]:
    """The most similar head; redundant: its outputs are alike, and no loss is certain."""
    other = most_alike(alike, head)
    known = [loss for loss in lost.values() if loss is not None]
    nothing = bool(known) and all(low <= 0 <= high for _, low, high in known)
    return {
        "lost": dict(lost),
        "alike": None if other is None else [other[0], other[1]],
        "redundant": other is not None and other[1] > ALIKE and nothing,
    }


def _statistics(
    place: AttentionPlace, trained: HeadStatistics, before: HeadStatistics, keys: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "queries": trained.queries,
        "confidence": with_ends(trained.confidence),
        "uniform": trained.uniform.value,
        "untrained_confidence": before.confidence.value,
        "entropy": trained.entropy.value,
        "recency": None if trained.recency is None else with_ends(trained.recency),
        "place": one_place(place, trained.offset, keys),
        "place_share": with_ends(trained.offset_share),
        "relations": {name: with_ends(excess) for name, excess in trained.relations.items()},
        "functions": [
            {
                "name": function.name,
                "measured": function.measured.value,
                "learned": function.learned,
            }
            for function in functions(place, trained, before, keys)
        ],
    }
