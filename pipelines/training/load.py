"""Loads the trained model and its transforms from a run folder."""

from __future__ import annotations

from pathlib import Path

import keras

from pipelines.common.artifacts import FEATURES, MODEL
from pipelines.common.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.training.model import MODEL_FILE
from recsys_attn.models import RankingModel


def load_trained(run: Path, exclude: tuple[str, ...]) -> tuple[FittedFeatures, RankingModel]:
    """Loads the transforms and the model of a run folder.

    Args:
        run: The run folder.
        exclude: Features that the model does not use; nor does a pruned one those it has not kept.
    """
    fitted = FittedFeatures.load(run / FEATURES).without(exclude)
    path = run / MODEL / MODEL_FILE
    try:
        model = keras.saving.load_model(path, compile=False)
    except (OSError, ValueError, KeyError) as error:
        raise PipelineError(
            f"{path} cannot be read: {error}. Run `recsys-attn train --force` again."
        ) from None
    names = {feature.name for feature in model.schema.features}
    closed = tuple(f.name for f in fitted.schema.features if f.name not in names)
    return fitted.without(closed).with_tasks(model.schema.tasks), model
