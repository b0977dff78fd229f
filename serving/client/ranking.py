"""The answer of `Client.explain`, read from the outputs of the signature `rank_explained`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from serving.common.errors import InvalidArgument
from serving.common.signature_names import (
    ATTENTION_PREFIX,
    FIELD_PREFIX,
    GATE_PREFIX,
    KNOWN_PREFIX,
    STATE_PREFIX,
)
from serving.encoding.array_values import is_present
from serving.encoding.arrow_tables import Table, is_table
from serving.encoding.features import Row

_PREFIXES = (ATTENTION_PREFIX, GATE_PREFIX, FIELD_PREFIX, KNOWN_PREFIX, STATE_PREFIX)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores of N candidates in the order in which they were sent, and their explanation.

    Args:
        scores: By task, (N,).
        ranking: Indices of the candidates, best first; `top_k` of them if that was given.
        version: The version that answered.
        attention: By history, (N, S): the weight of each of the S events that were sent.
        gates: By task, (N, E): the share of each expert.
        fields: By field, (N,): the weight that it has in the interaction of the fields.
        events: By feature of a history, (S,): the past events that the server's store gave.
        known: By history, (S,): whether the model saw the event and knows it. False for an event
            that is not in the vocabulary, missing or too old. Empty for an older export.
    """

    scores: Mapping[str, np.ndarray]
    ranking: np.ndarray
    version: int
    attention: Mapping[str, np.ndarray]
    gates: Mapping[str, np.ndarray]
    fields: Mapping[str, np.ndarray] = field(default_factory=dict)
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    events: Mapping[str, np.ndarray] = field(default_factory=dict)

    def shares(self) -> dict[str, np.ndarray]:
        """Returns the attention to known events only, in shares.

        `weight / sum of |weight|` over the known events of a history, so that candidates and
        models can be compared; 0 for other events, and for all where no known event has a weight.

        Returns:
            By history, (N, S).
        """
        shares = {}
        for name, weights in self.attention.items():
            of_known = np.where(self.known.get(name, True), weights, 0.0)
            total = np.abs(of_known).sum(axis=1, keepdims=True)
            shares[name] = np.divide(of_known, total, out=np.zeros_like(of_known), where=total > 0)
        return shares


def read_ranking(
    outputs: Mapping[str, np.ndarray],
    version: int,
    events: int,
    *,
    rank_by: str,
    first_task: str | None,
    top_k: int,
) -> Ranking:
    """Splits the outputs into scores and explanation, and sorts the candidates.

    Args:
        outputs: Outputs of `rank_explained` for one request, (1, N, ...) each.
        version: The version that computed them.
        events: Length of the longest list in the context; attention beyond it and beyond the
            events of the store is padding.
        rank_by: The task that ranks; `first_task` if empty.
        first_task: The first task of the experiment file; None for the first by name.
        top_k: Length of the ranking; 0 for all candidates.

    Raises:
        InvalidArgument: No task has the name `rank_by`.
    """
    stored = {name: _without_padding(v) for name, v in _with_prefix(STATE_PREFIX, outputs).items()}
    events = max([events, *map(len, stored.values())])
    scores = {name: value[0] for name, value in outputs.items() if not name.startswith(_PREFIXES)}
    order = best_first(scores, rank_by, first_task)
    return Ranking(
        scores=scores,
        ranking=order[: top_k or None],
        version=version,
        attention={
            history: value[:, :events]
            for history, value in _with_prefix(ATTENTION_PREFIX, outputs).items()
        },
        gates=_with_prefix(GATE_PREFIX, outputs),
        fields=_with_prefix(FIELD_PREFIX, outputs),
        known={
            history: value[0, :events] > 0
            for history, value in _with_prefix(KNOWN_PREFIX, outputs).items()
            if len(value)
        },
        events=stored,
    )


def _without_padding(values: np.ndarray) -> np.ndarray:
    """Returns a list without the missing values at its end."""
    present = np.flatnonzero(is_present(values))
    return values[: present[-1] + 1] if len(present) else values[:0]


def _with_prefix(prefix: str, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs (N, ...) whose names have a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): value[0]
        for name, value in outputs.items()
        if name.startswith(prefix)
    }


def best_first(
    scores: Mapping[str, np.ndarray], rank_by: str, first_task: str | None
) -> np.ndarray:
    """Returns the indices of the candidates by the scores of one task; see `read_ranking`.

    Raises:
        InvalidArgument: No task has the name `rank_by`.
    """
    if rank_by and rank_by not in scores:
        raise InvalidArgument(
            f"`rank_by` must be one of the tasks {', '.join(scores)}. Received: {rank_by!r}"
        )
    first = first_task if first_task is not None and first_task in scores else min(scores)
    best = -np.asarray(scores[rank_by or first], "float64")
    return np.argsort(best, kind="stable").astype("int32")  # NaN comes last


def longest_list(context: Row | Table) -> int:
    """Returns the length of the longest list of a context; a single value counts as one."""
    row = context.to_pylist()[0] if is_table(context) else context
    values = (value for value in row.values() if value is not None)
    return max(map(_length, values), default=0)


def _length(value: object) -> int:
    return len(value) if isinstance(value, (list, tuple, np.ndarray)) else 1
