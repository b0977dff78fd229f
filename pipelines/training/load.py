"""Loads the trained model and its transforms from a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from pipelines.common.artifacts import FEATURES, MODEL
from pipelines.common.errors import PipelineError
from pipelines.features import FittedFeatures
from recsys_attn.models import RankingModel, SequenceModel

MODEL_FILE = "model.keras"


def load_trained(run: Path, exclude: tuple[str, ...]) -> tuple[FittedFeatures, RankingModel]:
    """Loads the transforms and the model of a run folder.

    Args:
        run: The run folder.
        exclude: Features that the model does not use; nor does a pruned one those it has not kept.
    """
    fitted = FittedFeatures.load(run / FEATURES).without(exclude)
    model: RankingModel = _load(run)
    return _of_model(fitted, model).with_tasks(model.schema.tasks), model


def load_sequence_model(run: Path) -> tuple[FittedFeatures, SequenceModel]:
    """Loads the transforms and the sequence model of a run folder.

    Raises:
        PipelineError: The folder has no sequence model.
    """
    model = _load(run)
    if not isinstance(model, SequenceModel):
        raise PipelineError(
            f"{run}: expected the run folder of a sequence model. Received: that of the model "
            f"{model.name!r}, which ranks candidates."
        )
    return _of_model(FittedFeatures.load(run / FEATURES), model), model


def _load(run: Path) -> Any:
    path = run / MODEL / MODEL_FILE
    try:
        return keras.saving.load_model(path, compile=False)
    except (OSError, ValueError, KeyError) as error:
        raise PipelineError(
            f"{path} cannot be read: {error}. Run `recsys-attn train --force` again."
        ) from None


def _of_model(fitted: FittedFeatures, model: Any) -> FittedFeatures:
    """The transforms of the features that the model has."""
    names = {feature.name for feature in model.schema.features}
    return fitted.without(tuple(f.name for f in fitted.schema.features if f.name not in names))
