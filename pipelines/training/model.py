"""Builds the model of an experiment."""

from __future__ import annotations

from pipelines.common.errors import PipelineError, sentence
from pipelines.experiment.config import Experiment
from pipelines.training.encoder_from import encoded
from pipelines.training.optimizer import whole_table_l2
from pipelines.training.task_weights import make_task_weights
from recsys_attn import models
from recsys_attn.models import RankingModel, with_tables
from recsys_attn.schema import RESERVED_IDS, Schema


def check_model(experiment: Experiment) -> None:
    """Checks the model's arguments early, by building it with the smallest tables."""
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
        'An encoder reads it with `encoder_positions = "time_buckets"` in [model]; the transform '
        '"quantile" with `dtype = "float32"` makes a value of each event; `exclude` in [model] '
        "leaves it out."
        for name in model.unread
    ]
