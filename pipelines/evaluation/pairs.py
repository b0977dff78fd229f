"""Interaction of two features in a model, from the values of other rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.evaluation.importance import Arrays, Unit, permuted, units
from pipelines.metrics.intervals import Interval, interval_of, mean_influence, with_ends
from pipelines.metrics.metric_inputs import Floats
from pipelines.metrics.midranks import rank_correlation
from pipelines.metrics.probability import LOGLOSS_CLIP, logit
from pipelines.storage.request_rows import request_starts
from recsys_attn.schema import Schema

MOST = 10  # features whose pairs are tried


class Pair(NamedTuple):
    """The interaction of two features.

    Attributes:
        features: Both.
        strength: By task, `mean(d^2) / 4`, with its interval, in squared logits.
    """

    features: tuple[str, str]
    strength: dict[str, Interval]

    @property
    def entry(self) -> dict[str, Any]:
        """The pair as metrics.json has it."""
        strength = {task: with_ends(interval) for task, interval in self.strength.items()}
        return {"features": list(self.features), "strength": strength}


def pair_interactions(
    score: Callable[[pa.Table], Arrays],
    table: pa.Table,
    schema: Schema,
    request: str | None,
    clusters: np.ndarray,
    seed: int = 0,
    advance: Callable[[int], None] = lambda rows: None,
) -> list[Pair]:
    """The interaction of pairs of features: what a logit has beyond the sum of both.

    `strength = mean(d^2) / 4`, `d = f(x) - f(x with i) - f(x with j) + f(x with i and j)`

    with the values of another row for the features i and j. It is 0 if the logit is a sum of one
    part without i and one without j, and otherwise the variance of the parts that need both. All
    pairs of the ten features that move the logits the most are tried.

    Args:
        score: Probabilities of a table's rows by task.
        table: Whole requests of held-out rows.
        schema: The features.
        request: Column of the request id; None: every row is a request.
        clusters: Number of each row's user or request.
        seed: Seed of the other rows.
        advance: Is called with the number of rows done.

    Returns:
        The pairs, the strongest of any task first.

    Source: the superset importance of Liu and Owen, "Estimating Mean Dimensionality of Analysis of
    Variance Decompositions", JASA 2006; see also Friedman and Popescu, "Predictive Learning via
    Rule Ensembles", AOAS 2008.
    """
    starts = request_starts(table, request)

    def logits(*changed: Unit) -> dict[str, Floats]:
        rows = table
        for unit in changed:
            # Features of a side come from one other row: they fit together.
            rng = np.random.default_rng([seed, unit.of_request])
            rows = permuted(rows, unit.columns, starts, unit.of_request, rng)
        advance(len(table))
        return {task: _logits(scores) for task, scores in score(rows).items()}

    whole = logits()
    alone = {each: logits(each) for each in units(schema)}

    def moved(unit: Unit) -> float:
        return max(float(np.square(whole[task] - alone[unit][task]).mean()) for task in whole)

    interactions = []
    for pair in itertools.combinations(sorted(alone, key=moved, reverse=True)[:MOST], 2):
        both, (first, second) = logits(*pair), (alone[each] for each in pair)
        strength = {
            task: interval_of(
                *mean_influence(
                    np.square(whole[task] - first[task] - second[task] + both[task]) / 4, clusters
                )
            )
            for task in whole
        }
        interactions.append(Pair((pair[0].name, pair[1].name), strength))
    return sorted(
        interactions, key=lambda pair: -max(each.value for each in pair.strength.values())
    )


def agreement_with_map(
    pairs: Sequence[Pair], fields: Sequence[str], shares: Floats
) -> dict[str, float | None]:
    """Rank correlation of the interaction of two features and the attention between their fields.

    Args:
        pairs: The interactions.
        fields: The names of the fields; those of a history begin with its name and a dot.
        shares: The mean attention by head, (N, F, F).

    Returns:
        By task; None for fewer than three pairs, or where all are equal.
    """
    between = np.nan_to_num(shares).mean(axis=0)
    between = between + between.T
    owners = np.array([field.split(".")[0] for field in fields])
    known = [pair for pair in pairs if all(name in owners for name in pair.features)]
    if len(known) < 3:
        return dict.fromkeys(pairs[0].strength if pairs else ())
    attended = [
        between[np.ix_(*(owners == name for name in pair.features))].mean() for pair in known
    ]
    correlations = {}
    for task in known[0].strength:
        strengths = np.array([pair.strength[task].value for pair in known])
        value = float(rank_correlation(np.array(attended), strengths))
        correlations[task] = None if np.isnan(value) else value
    return correlations


def number_of_passes(schema: Schema) -> int:
    """The number of passes over the rows."""
    count = len(units(schema))
    return 1 + count + math.comb(min(count, MOST), 2)


def _logits(scores: Floats) -> Floats:
    clipped: Floats = logit(np.asarray(scores, np.float64).clip(LOGLOSS_CLIP, 1 - LOGLOSS_CLIP))
    return clipped
