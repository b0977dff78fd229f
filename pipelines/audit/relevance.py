"""The relevance of a model's inputs on held-out rows, by several methods, and a verdict on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.audit.faithfulness import faithfulness
from pipelines.audit.gradients import STEPS
from pipelines.audit.relevance_curves import DRAWS, SHARES, Measure, Measured
from pipelines.audit.sampled_rows import rows_of
from pipelines.audit.units import MOST_EVENTS
from pipelines.features import FittedFeatures
from recsys_attn.models import RankingModel
from recsys_attn.schema import Schema, Sequence

Floats = NDArray[np.float64]


def relevance(
    model: RankingModel,
    table: pa.Table,
    fitted: FittedFeatures,
    clusters: NDArray[np.intp],
    seed: int = 0,
    propagate: bool = False,
    advance: Callable[[int], None] = lambda rows: None,
) -> dict[str, dict[str, Any]]:
    """Relevance of fields and events for each task's logit, and its faithfulness.

    Each row is a request of one candidate. Leaving a unit out is the measure: it is exact for
    single units, and costs a pass for each. The other methods cost one pass or a few for all units,
    and agree with it where they are faithful.

    Args:
        model: The trained model.
        table: Held-out rows.
        fitted: Schema and transforms.
        clusters: Number of each row's user or request, whose rows depend on each other.
        seed: Seed of random orders.
        propagate: Whether to add layer-wise relevance propagation; see `conserving`.
        advance: Is called with the number of rows done.

    Returns:
        By task, or nothing without rows: `rows`; `missed`, by method the mean size of what its
        relevances miss of the sum that they should have, as a share of the mean size of that:
        `f(x) - f(0)` for integrated gradients, the logit for propagation; and `kinds`, by the kind
        of units (`fields`, `events/<history>` with the latest event first, and `heads` where a
        place of attention has several):

        - `units`: their names; `count`: the rows that have them.
        - `shares`: by method, each unit's share of the sum of all relevances by size. `means`: by
          method, the mean relevance with its sign over the rows that have it.
        - `removed`: shares of a row's units. `curves`: by method, the mean loss of the logit when
          so many are taken away, the most relevant first.
        - `ordered_rows`, `methods` and `verdict`: see `faithfulness`.
    """
    measure, pieces, sums = Measure(model, seed, propagate), [], []
    for inputs in rows_of(table, fitted):
        kinds, of_rows = measure(inputs)
        pieces.append(kinds)
        sums.append(of_rows)
        advance(len(next(iter(inputs.values()))))
    if not pieces:
        return {}
    joined = {kind: Measured.joined([piece[kind] for piece in pieces]) for kind in pieces[0]}
    totals = {name: np.sum([part[name] for part in sums], axis=0) for name in sums[0]}
    return {
        task.name: {
            "rows": len(table),
            "missed": {
                name: float(missed / whole) if whole else 0.0
                for name, (missed, whole) in ((n, both[index]) for n, both in totals.items())
            },
            "kinds": {
                kind: summarised(measured, index, clusters) for kind, measured in joined.items()
            },
        }
        for index, task in enumerate(model.schema.tasks)
    }


def number_of_passes(schema: Schema, heads: int) -> int:
    """About how many passes through the model the relevance of a row costs.

    Args:
        schema: The features and tasks.
        heads: Number of heads, of places with several.
    """
    tasks, orders = len(schema.tasks), len(SHARES)
    lengths = [sequences[0].max_length for sequences in schema.histories.values()]
    fields = sum(not isinstance(feature, Sequence) for feature in schema.features) + len(lengths)
    kinds = [fields, *(min(length, MOST_EVENTS) for length in lengths)]
    singles = sum(kinds) + heads
    # Orders by four methods for each task, one for all, and random ones; of heads, by three.
    ordered = len(kinds) * orders * (4 * tasks + 1 + DRAWS)
    of_heads = orders * (3 * tasks + DRAWS) if heads else 0
    return singles + ordered + of_heads + STEPS * (1 + 2 * tasks)


def summarised(measured: Measured, task: int, clusters: NDArray[np.intp]) -> dict[str, Any]:
    """The entry of metrics.json for one kind of units and one task."""
    by_method = {name: values[task] for name, values in measured.by_method.items()}
    curves = {name: values[task] for name, values in measured.curves.items()}
    count = measured.there.sum(axis=0)
    return {
        "units": list(measured.names),
        "count": count.tolist(),
        "shares": {name: _shares(values) for name, values in by_method.items()},
        "means": {
            name: (values.sum(axis=0) / np.maximum(count, 1)).tolist()
            for name, values in by_method.items()
        },
        "removed": list(SHARES),
        "curves": {name: values.mean(axis=0).tolist() for name, values in curves.items()},
        **faithfulness(by_method, measured.there, curves, clusters),
    }


def _shares(relevance: Floats) -> list[float]:
    sizes = np.abs(relevance).sum(axis=0)
    return (sizes / sizes.sum() if sizes.sum() else sizes).tolist()
