"""Training from the model of another run, without what its gates closed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from pipelines.common.errors import PipelineError
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.scoring.scorer import Scorer, Scores
from pipelines.storage.dataset import DataSplit
from pipelines.training.load import load_trained
from pipelines.training.teacher import fingerprint_of, fitted_otherwise
from recsys_attn.models import RankingModel, prune
from recsys_attn.models.pruning import Kept, gate_counts

TOLERANCE = 1e-6


class Pruned(NamedTuple):
    """A model before and after pruning.

    Attributes:
        whole: The model with its gates.
        model: The model without what they closed.
        fitted: The features that it needs.
        kept: The kept heads, experts and fields, of all.
    """

    whole: RankingModel
    model: RankingModel
    fitted: FittedFeatures
    kept: dict[str, Kept]


def pruned(run: Path, experiment: Experiment, fitted: FittedFeatures) -> Pruned:
    """Loads the model of a run and prunes it.

    Args:
        run: The run folder.
        experiment: The experiment of the new run.
        fitted: Its features and tasks.

    Raises:
        PipelineError: The run has no model, or one of other options, features or tasks, or its
            model has no closed gate or cannot be pruned.
    """
    fingerprint_of(run, "prune")
    older = load_experiment(run)
    theirs, whole = load_trained(run, older.model.exclude)
    differing = {
        "`model`": older.model.model_dump() != experiment.model.model_dump(),
        "`training.precision`": older.training.precision != experiment.training.precision,
        "`tasks`": theirs.schema.tasks != fitted.schema.tasks,
        "the features": bool(fitted_otherwise(theirs, fitted)),
    }
    for what, differs in differing.items():
        if differs:
            raise PipelineError(
                f"`training.prune`: {what} of {run} are not those of this experiment, and its "
                "model is the one that is pruned: expected the same. `recsys-attn prune "
                f"{run}` makes such a run."
            )
    try:
        model = prune(whole)
    except ValueError as error:
        raise PipelineError(f"`training.prune`: the model of {run}: {error}.") from None
    kept = gate_counts(whole)
    if all(count.kept == count.all for count in kept.values()):
        raise PipelineError(
            f"`training.prune`: every gate of the model of {run} is open: "
            f"{in_words(kept)}. Raise the `penalty` of `model.gates`, or train it with "
            '`keep = "last"`, with more epochs or with a lower `initial` of the gates.'
        )
    names = {feature.name for feature in model.schema.features}
    closed = tuple(f.name for f in fitted.schema.features if f.name not in names)
    return Pruned(whole, model, fitted.without(closed), kept)


def in_words(kept: Mapping[str, Kept]) -> str:
    """The kept heads, experts and fields in one line."""
    return ", ".join(f"{place} {count.kept} of {count.all}" for place, count in kept.items())


def check_pruned(
    found: Pruned, fitted: FittedFeatures, rows: DataSplit, request: str | None
) -> float:
    """Returns the largest difference of a score on some rows.

    Args:
        found: The models.
        fitted: The features of the whole one.
        rows: The rows.
        request: Column of the request id; None: every row is a request.

    Raises:
        PipelineError: A score differs by more than `TOLERANCE`.
    """
    before = _scores(found.whole, Feed(rows, fitted, request))
    after = _scores(found.model, Feed(rows, found.fitted, request))
    worst = max(float(np.abs(before[task] - after[task]).max(initial=0)) for task in before)
    if not worst <= TOLERANCE:
        raise PipelineError(
            f"The pruned model does not score like the one with gates: a score of the rows of "
            f"{rows.name!r} differs by {worst:.1e}; expected at most {TOLERANCE}."
        )
    return worst


def _scores(model: RankingModel, feed: Feed) -> Scores:
    return Scorer(_in_float32(model)).score_labelled(feed, lambda rows: None)[1]


def _in_float32(model: RankingModel) -> RankingModel:
    """A copy that computes in float32: bfloat16 rounds sums of fewer parts otherwise."""
    config = json.dumps(keras.saving.serialize_keras_object(model))
    if "mixed_bfloat16" not in config:
        return model
    plain: Any = json.loads(config.replace("mixed_bfloat16", "float32"))
    copy: RankingModel = keras.saving.deserialize_keras_object(plain)
    copy.set_weights(model.get_weights())
    return copy
