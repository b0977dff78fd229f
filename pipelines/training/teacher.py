"""Distillation: a trained model's probabilities become part of the labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import tensorflow as tf

from pipelines.common.artifacts import MANIFEST, MODEL, read_json
from pipelines.common.errors import PipelineError
from pipelines.experiment.config import load_experiment
from pipelines.experiment.training_options import TeacherOptions
from pipelines.features import FittedFeatures
from pipelines.training.load import load_trained
from recsys_attn.models import RankingModel
from recsys_attn.schema import Schema, Task


@dataclass(frozen=True)
class Teacher:
    """Mixes a teacher's probability p into the labels y: `(1 - weight) y + weight p`.

    Cross-entropy is linear in the label, so this is the sum of the losses to both. Unknown labels
    stay unknown.

    Source: Hinton et al., "Distilling the Knowledge in a Neural Network", 2015, arXiv 1503.02531
    (with temperature 1).

    Args:
        model: The trained model.
        tasks: Tasks that both models have.
        weight: Share of the teacher.
    """

    model: RankingModel
    tasks: tuple[str, ...]
    weight: float

    def __call__(
        self, inputs: Mapping[str, tf.Tensor], labels: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        taught = self.model.probabilities(inputs)
        mixed = {
            task: (1 - self.weight) * labels[task] + self.weight * taught[task]
            for task in self.tasks
        }
        return {**labels, **mixed}

    def unread(self, fitted: FittedFeatures, student: Schema) -> tuple[str, ...]:
        """The features that neither model reads."""
        read = {
            feature.name for schema in (self.model.schema, student) for feature in schema.features
        }
        return tuple(f.name for f in fitted.schema.features if f.name not in read)


def load_teacher(
    options: TeacherOptions, fitted: FittedFeatures, tasks: tuple[Task, ...]
) -> Teacher:
    """Loads the model of a run.

    Args:
        options: The run and its share.
        fitted: All features of the student's run.
        tasks: The student's tasks.

    Raises:
        PipelineError: The run has no model or other features, or has no task of the student, or
            one without probabilities.
    """
    run, key = options.run, "training.teacher.run"
    fingerprint_of(run, key)
    theirs, model = load_trained(run, load_experiment(run).model.exclude)
    other = fitted_otherwise(theirs, fitted)
    if other:
        raise PipelineError(
            f"`{key}`: the features {other} of {run} are not those of this experiment: "
            "expected the same data, features and split, so that ids mean the same values. Leave "
            "features out of the student by `model.exclude`."
        )
    names = {task.name for task in model.schema.tasks if task.has_probabilities}
    common = tuple(task.name for task in tasks if task.has_probabilities and task.name in names)
    if not common:
        raise PipelineError(
            f'`{key}`: expected a task with probabilities (`loss = "cross_entropy"`) that '
            f"both runs have. Received: {[task.name for task in tasks]} here, and in {run} "
            f"{[task.name for task in model.schema.tasks]}."
        )
    return Teacher(model, common, options.weight)


def fingerprint_of(run: Path, key: str) -> str:
    """The fingerprint of the trained model of a run, which `key` names."""
    manifest = run / MODEL / MANIFEST
    if not manifest.is_file():
        raise PipelineError(
            f"`{key}`: {run} is not the folder of a trained run: {manifest} does not exist."
        )
    fingerprint: str = read_json(manifest)["fingerprint"]
    return fingerprint


def fitted_otherwise(theirs: FittedFeatures, ours: FittedFeatures) -> list[str]:
    """Names of the features that are missing in `ours`, or have other ids or numbers there."""
    return [
        feature.name
        for feature in theirs.schema.features
        if feature not in ours.schema.features
        or not _same(
            theirs.transform_of(feature.name).state(), ours.transform_of(feature.name).state()
        )
    ]


def _same(state: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two transforms have learned the same; the values of a vocabulary are a column."""
    return state.keys() == other.keys() and all(
        value.equals(other[key])
        if isinstance(value, pa.Array | pa.ChunkedArray)
        else value == other[key]
        for key, value in state.items()
    )
