"""What of an experiment decides which result, as plain data and as a hash."""

from __future__ import annotations

from typing import Any

from pipelines.artifacts import fingerprint
from pipelines.config import Experiment


def settings_by_step(experiment: Experiment) -> dict[str, Any]:
    """What of the configuration decides each step's result."""
    values = experiment.model_dump(mode="json")
    columns = ("kind", "name", "dtype", "multivalued", "label", "mask")
    read = [
        {key: part[key] for key in columns if key in part}
        for part in [*values["features"], *values["tasks"]]
    ]
    return {
        "ingest": [values["data"], read],
        "fit": values["features"],
        "train": [values["model"], values["training"], values["tasks"]],
        "evaluate": [values["name"], values["evaluation"]],
        "export": values["export"],
        "statistics": None,  # of what `ingest` and `fit` made
    }


def config_hash(experiment: Experiment) -> str:
    """Hash of all of the configuration that decides an evaluation: all but the export."""
    return fingerprint(experiment.model_dump(mode="json", exclude={"export"}))


def resumable_settings(experiment: Experiment) -> Any:
    """What of the training may not change between a checkpoint and the training that goes on.

    A training may go on for more epochs, or save more often. The number of lanes, which may
    follow from the workers, is checked apart.
    """
    free = {"lanes", "epochs", "patience", "checkpoint_every", "keep_checkpoints"}
    model, training, tasks = settings_by_step(experiment)["train"]
    return [model, {key: training[key] for key in training if key not in free}, tasks]
