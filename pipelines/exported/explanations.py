"""Events and experts in what an export's signature `rank_explained` returns."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.audit.experts import audited_gates
from pipelines.audit.maps import EventShares
from pipelines.audit.recorder import AttentionRecord
from pipelines.export.raw_inputs import Raw
from pipelines.exported.exported_model import ExportedModel
from pipelines.storage.request_rows import request_starts
from recsys_attn.models.attention_places import AttentionPlace
from recsys_attn.schema import Schema, is_age
from serving.state.columns.missing import MISSING


def explanations(
    model: ExportedModel,
    table: pa.Table,
    request: str | None,
    codes: NDArray[Any],
    advance: Callable[[int], None],
) -> dict[str, Any]:
    """The attention to events by age and likeness, and the gates of experts.

    Args:
        model: The exported model.
        table: Whole requests.
        request: Column of the request id; None: every row is a request.
        codes: Number of each row's user or request.
        advance: Is called with the number of rows done.

    Returns:
        The entries `requests`, `rows`, `places` and `experts` of the audit.
    """
    starts = request_starts(table, request)
    gates: dict[str, list[NDArray[Any]]] = defaultdict(list)
    shares: dict[str, EventShares] = defaultdict(EventShares)
    for number, (begin, end) in enumerate(itertools.pairwise(starts)):
        if not model.explains:
            break
        explained, raw = model.explained(table.slice(begin, end - begin))
        advance(int(end - begin))
        for name, values in explained.items():
            kind, _, of = name.partition("/")
            if kind == "gate":
                gates[of].append(values[0])
            elif kind == "attention" and "." not in of:
                shares[of].add(_record(model.schema, of, values, raw, number))
    of_tasks = {task: np.concatenate(parts) for task, parts in gates.items()}
    return {
        "requests": len(starts) - 1,
        "rows": len(table),
        "places": [
            {
                "place": str(AttentionPlace("target_attention", history)),
                "kind": "target_attention",
                "history": history,
                "heads": [],
                "events": [share.entry for share in attention.shares(codes[starts[:-1]])],
            }
            for history, attention in shares.items()
        ],
        "experts": audited_gates(of_tasks, codes, (), None) if gates else None,
    }


def _record(
    schema: Schema,
    history: str,
    weights: NDArray[Any],
    raw: Raw,
    number: int,
) -> AttentionRecord:
    """The attention of one request's candidates to the events that the model sees."""
    places = _events(schema, history, raw)
    sequences = schema.histories[history]
    if not any(schema[schema.table_owner(one.name)].side == "candidate" for one in sequences):
        weights = weights[:, :1]  # all candidates ask alike: one query
    sizes = np.abs(weights[..., places])[:, None].astype(np.float64)  # (1, 1, T, S)
    total = sizes.sum(axis=-1, keepdims=True)
    shares = np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)
    relations = {}
    for sequence in sequences:
        owner = sequence.shares
        if is_age(sequence) or owner not in raw or schema[owner].side != "candidate":
            continue
        events = _padded(raw[sequence.name][0], weights.shape[2])[places]
        same = (raw[owner][0][:, None] == events) & (events != MISSING[sequence.dtype])
        relations[f"same {owner}"] = same[None].astype(bool)
    candidates, events_there = shares.shape[2:]
    return AttentionRecord(
        AttentionPlace("target_attention", history),
        shares,
        np.zeros((1, candidates, 1, 1)),
        np.zeros((1, events_there, 1, 1)),
        np.ones((1, candidates), bool),
        np.ones((1, events_there), bool),
        np.array([number]),
        relations,
    )


def _events(schema: Schema, history: str, raw: Raw) -> NDArray[np.intp]:
    """The places of the latest events of a request that are not missing, oldest first."""
    sequences = schema.histories[history]
    longest = max(raw[sequence.name].shape[1] for sequence in sequences)
    is_event = np.zeros(longest, bool)
    for sequence in sequences:
        values = _padded(raw[sequence.name][0], longest)
        is_event |= [not _is_missing(value, sequence.dtype) for value in values]
    return np.flatnonzero(is_event)[-sequences[0].max_length :]


def _padded(values: NDArray[Any], length: int) -> NDArray[Any]:
    padded = np.full(length, None, object)
    padded[: len(values)] = values
    return padded


def _is_missing(value: Any, dtype: str) -> bool:
    return value is None or value != value or value == MISSING[dtype]
