"""Statistics of heads: how sharply each attends, and how its keys compare with fixed rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.audit.recorder import AttentionRecord, Floats
from pipelines.metrics.intervals import Interval, interval_of, ratio_influence
from pipelines.metrics.midranks import rank_correlation

NEAR = 8  # offsets to either side, and latest events, of which one may be a head's only target
TIES = 1e-6  # weights closer than this share are equal
Codes = NDArray[np.integer[Any]]


class HeadStatistics(NamedTuple):
    """The statistics of one head, over all queries with at least two keys.

    Every number is a mean over queries, with an interval for the clusters of their rows.

    Attributes:
        queries: Number of queries.
        confidence: The largest share of a key.
        uniform: The same with equal shares, `1 / keys`.
        entropy: Entropy of the shares in units of that of equal shares: 0 for one key, 1 for all.
        recency: Rank correlation of a share with the time of its event; None without times.
        offset, offset_share: The offset that most often has the largest share, and how often among
            the queries that have a key there. In an encoder the offset of a key from its query, in
            target attention that from the latest event (0), and otherwise the number of the key.
        relations: By name, how often the key with the largest share has a relation to the query,
            minus the best of fixed offsets and of chance.
    """

    queries: int
    confidence: Interval
    uniform: Interval
    entropy: Interval
    recency: Interval | None
    offset: int
    offset_share: Interval
    relations: Mapping[str, Interval]


class HeadTotals:
    """Adds the attention of a place up, batch by batch, to the statistics of each head.

    The largest share is that of one key: where several share it, there is none.

    Source: confidence and functions: Voita et al., "Analyzing Multi-Head Self-Attention",
    ACL 2019, arXiv 1905.09418.
    """

    def __init__(self) -> None:
        self._sums: dict[str, list[NDArray[Any]]] = defaultdict(list)
        self._counts: list[NDArray[Any]] = []
        self._requests: list[NDArray[Any]] = []

    def add(self, record: AttentionRecord) -> None:
        """Adds a batch; the mechanism makes weights."""
        sums, valid = _of_queries(record)
        self._counts.append(valid.sum(axis=1))
        self._requests.append(record.requests)
        for name, values in sums.items():
            self._sums[name].append(np.where(valid[:, None], values, 0).sum(axis=2))

    def heads(self, clusters: Codes) -> list[HeadStatistics]:
        """The statistics of each head.

        Args:
            clusters: The number of the user or request of each request of the sample.
        """
        total = {name: np.concatenate(parts) for name, parts in self._sums.items()}
        counts = np.concatenate(self._counts)
        codes = clusters[np.concatenate(self._requests)]
        heads = total["confidence"].shape[1]
        return [_of_head(total, counts, codes, head) for head in range(heads)]


def _of_head(total: Mapping[str, Floats], counts: Codes, codes: Codes, head: int) -> HeadStatistics:
    def mean(values: NDArray[Any], others: NDArray[Any] = counts) -> Interval:
        return interval_of(*ratio_influence(values.astype(float), others.astype(float), codes))

    def column(name: str) -> NDArray[Any]:
        values = total[name]
        return values[:, min(head, values.shape[1] - 1)]  # one column for all heads, or for each

    offsets = sorted(int(name.split()[1]) for name in total if name.startswith("offset "))
    best = max(
        offsets,
        key=lambda offset: [column(f"{end} {offset}").sum() for end in ("offset", "queries")],
    )
    names = [name.removeprefix("hit ") for name in total if name.startswith("hit ")]
    relations = {}
    for name in names:
        rules = [f"at {offset} {name}" for offset in offsets] + [f"chance {name}"]
        rule = max(rules, key=lambda end: float(column(end).sum()))
        relations[name] = mean(column(f"hit {name}") - column(rule))
    recency = None
    if "recency" in total:
        recency = mean(column("recency"), column("ordered"))
    return HeadStatistics(
        int(counts.sum()),
        mean(column("confidence")),
        mean(column("uniform")),
        mean(column("entropy")),
        recency,
        best,
        mean(column(f"offset {best}"), column(f"queries {best}")),
        relations,
    )


def _of_queries(record: AttentionRecord) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Statistics (B, N or 1, T) by name, and the queries (B, T) that count."""
    weights = record.shares
    size = record.keys.sum(axis=1)  # (B,)
    valid = record.queries & (size > 1)[:, None] & (weights.sum(axis=(1, 3)) > 0)
    top = weights.max(axis=3)
    first = weights.argmax(axis=3)  # (B, N, T)
    single = (weights >= top[..., None] * (1 - TIES)).sum(axis=3) == 1
    sizes = np.maximum(size, 2)[:, None, None]
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    sums = {
        "confidence": top,
        "uniform": np.broadcast_to(1 / sizes, (*sizes.shape[:2], top.shape[2])),
        "entropy": -(weights * logs).sum(axis=3) / np.log(sizes),
    }
    base = _base(record, size)
    queries = np.broadcast_to(np.arange(weights.shape[2]), top.shape[::2])
    for offset in _offsets(record):
        place = base + offset  # (B, T)
        inside = (place >= 0) & (place < size[:, None] if _is_ordered(record) else place >= 0)
        sums[f"offset {offset}"] = single & (first == place[:, None]) & inside[:, None]
        sums[f"queries {offset}"] = inside[:, None]
        for name, relation in record.relations.items():
            where = np.clip(place, 0, relation.shape[2] - 1)
            hit = np.take_along_axis(relation, where[..., None], axis=2)[..., 0]
            sums[f"at {offset} {name}"] = (hit & inside)[:, None]
    for name, relation in record.relations.items():
        hit = relation[np.arange(len(first))[:, None, None], queries[:, None], first]
        sums[f"hit {name}"] = hit & single
        sums[f"chance {name}"] = (relation.sum(axis=2) / sizes[:, 0])[:, None]
    if _is_ordered(record) and record.place.kind != "encoder":
        time = np.where(record.keys, np.arange(record.keys.shape[1]), np.nan)
        ranked = rank_correlation(weights, time[:, None, None])
        sums["recency"], sums["ordered"] = np.nan_to_num(ranked), ~np.isnan(ranked)
    return sums, valid


def _is_ordered(record: AttentionRecord) -> bool:
    """Whether the keys are events, oldest first."""
    return bool(record.place.history)


def _base(record: AttentionRecord, size: Codes) -> Codes:
    """The place of a query's offset 0, (B, T)."""
    queries = record.queries.shape[1]
    if record.place.kind == "encoder":
        return np.broadcast_to(np.arange(queries), record.queries.shape)
    last = size[:, None] - 1 if _is_ordered(record) else np.zeros((len(size), 1), int)
    return np.broadcast_to(last, record.queries.shape)


def _offsets(record: AttentionRecord) -> range:
    if record.place.kind == "encoder":
        return range(-NEAR, NEAR + 1)
    return range(1 - NEAR, 1) if _is_ordered(record) else range(record.keys.shape[1])
