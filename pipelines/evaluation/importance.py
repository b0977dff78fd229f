"""Importance of features: how much worse the scores are with the values of other rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.metrics.intervals import (
    auc_influence,
    cluster_codes,
    difference,
    mean_influence,
    with_ends,
)
from pipelines.metrics.probability import row_losses
from pipelines.storage.request_rows import request_starts
from recsys_attn.schema import Feature, Schema, Sequence

Arrays = Mapping[str, NDArray[Any]]


def permutation_importance(
    score: Callable[[pa.Table], Arrays],
    table: pa.Table,
    schema: Schema,
    request: str | None,
    labels: Arrays,
    clusters: NDArray[Any],
    seed: int = 0,
    advance: Callable[[int], None] = lambda rows: None,
) -> dict[str, list[dict[str, Any]]]:
    """Loss of AUC and gain of logloss when one feature has the values of other rows.

    A feature of the request changes places between requests, and one of the candidate between rows;
    the aligned sequences of a history stay together, and so do the features of one column, which
    then have its name. A feature that says the same as another loses
    little, as the other one is left: the importance is that of this model, not of the data.

    Args:
        score: Scores of a table by task, probabilities where `logloss` means something.
        table: Whole requests of held-out rows.
        schema: The features and tasks.
        request: Column of the request id; None: every row is a request.
        labels: 0, 1 or nan for unknown of each row, by task.
        clusters: Number of each row's user or request, whose rows depend on each other; nan: alone.
        seed: Seed of the permutations.
        advance: Is called with the number of rows done.

    Returns:
        By task, for each feature or history: its `columns`, and `auc` and `logloss`, each the
        change (the AUC's loss, the logloss' gain) and the ends of its 95 % interval, or None where
        the labels do not define it. The most important comes first.

    Source: Breiman, "Random Forests", Machine Learning 2001; Fisher et al., "All Models are Wrong,
    but Many are Useful", JMLR 2019.
    """
    rng = np.random.default_rng(seed)
    starts = request_starts(table, request)
    whole = score(table)
    importance: dict[str, list[dict[str, Any]]] = {task: [] for task in labels}
    probabilities = {task.name: task.has_probabilities for task in schema.tasks}
    for name, columns, of_request in units(schema):
        changed = score(permuted(table, columns, starts, of_request, rng))
        advance(len(table))
        for task, label in labels.items():
            known = ~np.isnan(label)
            arrays = (label, whole[task], changed[task], clusters)
            entry = {"feature": name, "columns": list(columns)}
            changes = _changes(probabilities[task], *(array[known] for array in arrays))
            importance[task].append(entry | changes)
    for entries in importance.values():
        entries.sort(key=lambda entry: -entry["auc"][0] if entry["auc"] else 0.0)
    return importance


class Unit(NamedTuple):
    """A feature or a history.

    Attributes:
        name: Its name.
        columns: Its columns.
        of_request: Whether all rows of a request share its values.
    """

    name: str
    columns: tuple[str, ...]
    of_request: bool


def units(schema: Schema) -> list[Unit]:
    """The features and histories that change places."""
    readers: dict[str, list[Feature]] = {}
    for feature in schema.features:
        if not isinstance(feature, Sequence):
            readers.setdefault(feature.column_name, []).append(feature)
    features = [
        Unit(of[0].name if len(of) == 1 else column, (column,), of[0].side == "context")
        for column, of in readers.items()
    ]
    return features + [
        Unit(name, tuple(dict.fromkeys(of.column_name for of in sequences)), True)
        for name, sequences in schema.histories.items()
    ]


def permuted(
    table: pa.Table,
    columns: tuple[str, ...],
    starts: NDArray[np.integer],
    of_request: bool,
    rng: np.random.Generator,
) -> pa.Table:
    """The table with some columns of other rows, or of other requests."""
    if of_request:
        lengths = np.diff(starts)
        rows = np.repeat(starts[:-1][rng.permutation(lengths.size)], lengths)
    else:
        rows = rng.permutation(len(table))
    for name in columns:
        moved = table[name].combine_chunks().take(pa.array(rows))
        table = table.set_column(table.column_names.index(name), name, moved)
    return table


def _changes(
    probabilities: bool,
    labels: NDArray[Any],
    scores: NDArray[Any],
    changed: NDArray[Any],
    clusters: NDArray[Any],
) -> dict[str, list[float] | None]:
    """Loss of AUC and gain of logloss, each with the ends of its interval."""
    if not 0 < labels.sum() < labels.size:
        return {"auc": None, "logloss": None}
    codes = cluster_codes(clusters, labels)
    auc = difference(auc_influence(labels, scores, codes), auc_influence(labels, changed, codes))
    loss = None
    if probabilities:
        losses = (mean_influence(row_losses(labels, those), codes) for those in (changed, scores))
        loss = with_ends(difference(*losses))
    return {"auc": with_ends(auc), "logloss": loss}
