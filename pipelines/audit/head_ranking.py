"""The heads that a model needs most, by relevance or by confidence, for pruning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.audit.attention_gradients import AttentionGradients
from pipelines.audit.head_statistics import HeadTotals
from pipelines.audit.recorder import Recorder
from pipelines.audit.sampled_rows import rows_of
from pipelines.audit.units import AllUnits
from pipelines.features import FittedFeatures
from pipelines.feed.chunk import transform
from recsys_attn.models import RankingModel
from recsys_attn.models.attention_places import AttentionPlace, head_layers

Floats = NDArray[np.float64]
RankBy = Literal["relevance", "confidence"]


def best_heads(
    model: RankingModel,
    table: pa.Table,
    fitted: FittedFeatures,
    count: int,
    by: RankBy = "relevance",
) -> dict[AttentionPlace, list[int]]:
    """Returns the highest heads of all places together, at least one in each place.

    Each row is a request of one candidate. A head's relevance is its mean size of gradient times
    output, `|sum o df/do|` over the queries and components of its output o, as a share of all
    heads, and then the mean over the logits f of the tasks. Its confidence is the mean of its
    largest weight, over all queries with at least two keys; places with few keys have a higher one.

    Args:
        model: A trained model.
        table: Rows that are not those of the test.
        fitted: Schema and transforms.
        count: Number of heads.
        by: What the heads are ranked by.

    Raises:
        ValueError: The model has no place with several heads, the number does not fit, or the
            confidence is asked of a mechanism that makes no weights.

    Source: relevance: Michel et al., "Are Sixteen Heads Really Better than One?", NeurIPS 2019,
    arXiv 1905.10650 (of the loss); confidence: Voita et al., ACL 2019, arXiv 1905.09418.
    """
    places = head_layers(model)
    if not places:
        raise ValueError("no place of attention with several heads, of which some could be removed")
    sizes = {place: layer.computed_heads for place, layer in places.items()}
    if not len(sizes) <= count < sum(sizes.values()):
        raise ValueError(
            f"expected at least {len(sizes)} heads, one for each place with several, and fewer "
            f"than all of them ({', '.join(f'{place}: {n}' for place, n in sizes.items())}). "
            f"Received: {count}"
        )
    scores = _RANKINGS[by](model, table, fitted)
    return _highest({place: scores[place] for place in places}, count)


def _highest(
    ranked: Mapping[AttentionPlace, Floats], count: int
) -> dict[AttentionPlace, list[int]]:
    """The highest head of each place, then the highest of all others."""
    heads_of_place = {place: [int(np.argmax(scores))] for place, scores in ranked.items()}
    others = [
        (-float(score), number, head)
        for number, (place, scores) in enumerate(ranked.items())
        for head, score in enumerate(scores)
        if head not in heads_of_place[place]
    ]
    places = list(ranked)
    for _, number, head in sorted(others)[: count - len(heads_of_place)]:
        heads_of_place[places[number]].append(head)
    return {place: sorted(heads) for place, heads in heads_of_place.items()}


def _relevance(
    model: RankingModel, table: pa.Table, fitted: FittedFeatures
) -> dict[AttentionPlace, Floats]:
    gradients, sums = AttentionGradients(model), dict[AttentionPlace, Floats]()
    for inputs in rows_of(table, fitted):
        for one in gradients(AllUnits.of(model.schema, inputs)):
            sizes = np.abs(one.heads).sum(axis=1)  # (tasks, N)
            sums[one.place] = sums.get(one.place, 0) + sizes
    removable = [place for place in sums if place.kind != "gate"]
    totals = np.sum([sums[place].sum(axis=1) for place in removable], axis=0)  # (tasks,)
    shares = {place: sums[place] / np.maximum(totals, 1e-30)[:, None] for place in removable}
    return {place: share.mean(axis=0) for place, share in shares.items()}


def _confidence(
    model: RankingModel, table: pa.Table, fitted: FittedFeatures
) -> dict[AttentionPlace, Floats]:
    totals: dict[AttentionPlace, HeadTotals] = {}
    chunk = transform(table, fitted, None, labelled=False)
    for _, attended, _ in Recorder(model, chunk).batches():
        for record in attended:
            if record.place.kind == "gate" or record.output.shape[2] < 2:
                continue
            if record.weights is None:
                raise ValueError(
                    f"the mechanism of {record.place} makes no weights, so that its heads have no "
                    "confidence: rank them by relevance"
                )
            totals.setdefault(record.place, HeadTotals()).add(record)
    rows = np.arange(len(table))
    return {
        place: np.array([head.confidence.value for head in of_place.heads(rows)])
        for place, of_place in totals.items()
    }


_RANKINGS: Mapping[
    RankBy, Callable[[RankingModel, pa.Table, FittedFeatures], dict[AttentionPlace, Floats]]
] = {"relevance": _relevance, "confidence": _confidence}
