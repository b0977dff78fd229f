"""Training from the model of another run, without a part of its heads, experts or fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from pipelines.audit.head_ranking import best_heads
from pipelines.audit.sampled_rows import drawn_rows
from pipelines.common.errors import PipelineError, sentence
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.scoring.scorer import Scorer, Scores
from pipelines.storage.dataset import DataSplit
from pipelines.training.load import load_trained
from pipelines.training.optimizer import whole_table_l2
from pipelines.training.teacher import fingerprint_of, fitted_otherwise
from recsys_attn.attention import HeadsCall, watch_heads
from recsys_attn.models import RankingModel, prune
from recsys_attn.models.attention_places import AttentionPlace, head_layers
from recsys_attn.models.pruning import Kept, gate_counts, head_counts

TOLERANCE = 1e-6
RANKED_ROWS = 4096  # of the validation rows


class Pruned(NamedTuple):
    """A model before and after pruning.

    Attributes:
        whole: The model with its gates.
        model: The model without what they closed.
        fitted: The features that it needs.
        kept: The kept heads, experts and fields, of all.
        heads: The kept heads by place, with `training.prune_heads`.
    """

    whole: RankingModel
    model: RankingModel
    fitted: FittedFeatures
    kept: dict[str, Kept]
    heads: dict[AttentionPlace, list[int]]


def pruned(run: Path, experiment: Experiment, fitted: FittedFeatures, valid: DataSplit) -> Pruned:
    """Loads the model of a run and prunes it.

    Args:
        run: The run folder.
        experiment: The experiment of the new run.
        fitted: Its features and tasks.
        valid: The validation rows, on which heads are ranked.

    Raises:
        PipelineError: The run has no model, or one of other options, features or tasks, or its
            model has no closed gate or cannot be pruned.
    """
    fingerprint_of(run, "training.prune")
    older = load_experiment(run)
    theirs, whole = load_trained(run, older.model.exclude)
    differing = {
        "`model`": older.model.model_dump() != experiment.model.model_dump(),
        "`training.precision`": older.training.precision != experiment.training.precision,
        "`training.embeddings_stddev`": older.training.embeddings_stddev
        != experiment.training.embeddings_stddev,
        "the penalty of whole tables, `training.embeddings_l2`": whole_table_l2(older.training)
        != whole_table_l2(experiment.training),
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
    if experiment.training.prune_heads is not None:
        return _with_best_heads(run, experiment, fitted, whole, valid)
    try:
        model = prune(whole)
    except ValueError as error:
        raise PipelineError(
            f"`training.prune`: the model of {run}: {error}. A model without gates is pruned by "
            "`training.prune_heads`, or `--heads`."
        ) from None
    counts = gate_counts(whole)
    if all(count.kept == count.all for count in counts.values()):
        raise PipelineError(
            f"`training.prune`: every gate of the model of {run} is open: "
            f"{in_words(counts)}. Raise the `penalty` of `model.gates`, or train it with "
            '`keep = "last"`, with more epochs or with a lower `initial` of the gates.'
        )
    names = {feature.name for feature in model.schema.features}
    closed = tuple(f.name for f in fitted.schema.features if f.name not in names)
    return Pruned(whole, model, fitted.without(closed), counts, {})


def _with_best_heads(
    run: Path, experiment: Experiment, fitted: FittedFeatures, whole: RankingModel, valid: DataSplit
) -> Pruned:
    """Keeps the heads of a model without gates that rank highest on the validation rows."""
    options, key = experiment.training, "`training.prune_heads`"
    gates = gate_counts(whole)
    if gates:
        raise PipelineError(
            f"{key}: the model of {run} has gates ({', '.join(gates)}), which say what is kept. "
            "Leave out `training.prune_heads`, or `--heads`; or name a run without gates."
        )
    _, table = drawn_rows(Feed(valid, fitted, None), RANKED_ROWS, experiment.seed)
    try:
        ranking = options.prune_by or "relevance"
        heads = best_heads(_in_float32(whole), table, fitted, options.prune_heads or 0, ranking)
        model = prune(whole, heads)
    except ValueError as error:
        raise PipelineError(f"{key}: the model of {run}: {sentence(error)}") from None
    return Pruned(whole, model, fitted, head_counts(whole, heads), heads)


def in_words(counts: Mapping[str, Kept]) -> str:
    """The kept heads, experts and fields in one line."""
    return ", ".join(f"{place} {count.kept} of {count.all}" for place, count in counts.items())


def check_pruned(
    result: Pruned, fitted: FittedFeatures, rows: DataSplit, request: str | None
) -> float:
    """Returns the largest difference of a score on some rows.

    Args:
        result: The models.
        fitted: The features of the whole one.
        rows: The rows.
        request: Column of the request id; None: every row is a request.

    Raises:
        PipelineError: A score differs by more than `TOLERANCE`.
    """
    whole = _in_float32(result.whole)
    masked = Scorer(whole, _without_heads(whole, result.heads))
    before = _scores(masked, Feed(rows, fitted, request))
    after = _scores(Scorer(_in_float32(result.model)), Feed(rows, result.fitted, request))
    worst = max(float(np.abs(before[task] - after[task]).max(initial=0)) for task in before)
    if not worst <= TOLERANCE:
        raise PipelineError(
            "The pruned model does not score like the whole one with zeros in the place of the "
            f"removed parts: a score of the rows of {rows.name!r} differs by {worst:.1e}; expected "
            f"at most {TOLERANCE}."
        )
    return worst


def _scores(scorer: Scorer, feed: Feed) -> Scores:
    return scorer.score_labelled(feed, lambda rows: None)[1]


def _without_heads(
    model: RankingModel, heads_of_places: Mapping[AttentionPlace, Sequence[int]]
) -> Callable[[], AbstractContextManager[Any]]:
    """Makes the context in which the other heads of some places are zero."""
    layers, masks = head_layers(model), {}
    for place, heads in heads_of_places.items():
        mask = np.zeros(layers[place].computed_heads, "float32")
        mask[list(heads)] = 1
        masks[id(layers[place].heads.mechanism)] = mask

    def visit(call: HeadsCall) -> HeadsCall:
        if id(call.mechanism) not in masks:
            return call
        mask = keras.ops.cast(masks[id(call.mechanism)], call.output.dtype)
        return call._replace(output=call.output * mask[:, None])

    return partial(watch_heads, visit) if masks else nullcontext


def _in_float32(model: RankingModel) -> RankingModel:
    """A copy that computes in float32: bfloat16 rounds sums of fewer parts otherwise."""
    config = json.dumps(keras.saving.serialize_keras_object(model))
    if "mixed_bfloat16" not in config:
        return model
    plain: Any = json.loads(config.replace("mixed_bfloat16", "float32"))
    copy: RankingModel = keras.saving.deserialize_keras_object(plain)
    copy.set_weights(model.get_weights())
    return copy
