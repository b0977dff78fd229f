"""Builds the model of an experiment, and checks that it fits the data."""

from __future__ import annotations

import itertools

import pyarrow.compute as pc

from pipelines.common.errors import PipelineError, sentence
from pipelines.experiment.config import Experiment
from pipelines.experiment.model_options import EnsembleOptions
from pipelines.ingest.split_summary import known_labels
from pipelines.storage.dataset import DataSplit
from pipelines.training.encoder_from import encoded
from pipelines.training.optimizer import whole_table_l2
from pipelines.training.task_weights import make_task_weights
from recsys_attn import models
from recsys_attn.models import RankingModel, with_tables
from recsys_attn.schema import RESERVED_IDS, Schema


def check_model(experiment: Experiment) -> None:
    """Checks the model's arguments early, by building it with the smallest tables.

    The members of an ensemble are models of other runs, or of this table with other seeds.
    """
    if isinstance(experiment.model, EnsembleOptions):
        return
    sizes = {feature.name: RESERVED_IDS + 1 for feature in experiment.features}
    model = build_model(experiment, experiment.model_schema.with_sizes(sizes))
    make_task_weights(experiment.training, model)
    if experiment.model.encoder_from is not None:
        encoded(experiment.model.encoder_from, model)


def build_model(experiment: Experiment, schema: Schema) -> RankingModel:
    """Builds the experiment's model for the fitted schema."""
    build = models.get(experiment.model.name)
    try:
        model = build(schema, **experiment.model.arguments)
    except (TypeError, ValueError) as error:
        raise PipelineError(
            f"The model {experiment.model.name!r} cannot be built: {sentence(error)}"
        ) from None
    options = experiment.training
    return with_tables(model, stddev=options.embeddings_stddev, l2=whole_table_l2(options))


def unread_features(model: RankingModel) -> list[str]:
    """A sentence for each feature that changes no score of the model."""
    return [
        f"Feature {name!r} is read by nothing in {model.name}, and requests need it all the same. "
        'An encoder reads it with `encoder.positions = "time_buckets"` in [model]; the transform '
        '"quantile" with `dtype = "float32"` makes a value of each event; `exclude` in [model] '
        "leaves it out."
        for name in model.unread
    ]


def check_same_rows(model: RankingModel, train: DataSplit) -> None:
    """Checks the labels of a model that compares the probabilities of its tasks.

    Args:
        model: The model; another one has no such needs.
        train: The train rows.

    Raises:
        PipelineError: A row has a label of one task alone, or a task happened in a row where the
            one before did not.
    """
    if not model.same_rows:
        return
    tasks = model.schema.tasks
    columns = [name for task in tasks for name in (task.label_column, task.mask) if name]
    pairs = list(itertools.pairwise(tasks))
    alone, early = dict.fromkeys(range(len(pairs)), 0), dict.fromkeys(range(len(pairs)), 0)
    for rows in train.batches(list(dict.fromkeys(columns))):
        for place, (before, task) in enumerate(pairs):
            first, second = known_labels(rows, before), known_labels(rows, task)
            alone[place] += pc.sum(pc.xor(pc.is_null(first), pc.is_null(second))).as_py() or 0
            early[place] += pc.sum(pc.greater(second, first)).as_py() or 0
    for place, (before, task) in enumerate(pairs):
        if alone[place]:
            raise PipelineError(
                f"The model {model.name!r} compares {task.name!r} and {before.name!r} over the "
                "same rows: a row must have the labels of both or of neither, 0 where "
                "something did not happen. Received in the train split: the label of one of them "
                f"alone in {alone[place]} row{'s' * (alone[place] > 1)}."
            )
        if early[place]:
            raise PipelineError(
                f"The tasks of the model {model.name!r} must stand in their order, such as click, "
                f"then buy. Received in the train split: {task.name!r} happened and "
                f"{before.name!r} did not in {early[place]} row{'s' * (early[place] > 1)}."
            )
