"""What of an experiment decides which result, as plain data and as a hash."""

from __future__ import annotations

from typing import Any

from pipelines.common.artifacts import fingerprint
from pipelines.experiment.config import Experiment
from pipelines.storage.filesystem import without_credentials


def resolved(experiment: Experiment) -> dict[str, Any]:
    """The whole experiment, as a run folder keeps it: every key, and no password of a URI."""
    values = experiment.model_dump(mode="json")
    path = values["data"]["path"]
    if isinstance(path, str):
        values["data"]["path"] = without_credentials(path)
    elif path is not None:
        values["data"]["path"] = [without_credentials(place) for place in path]
    return values


def settings_by_step(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """What of the configuration decides each step's result, by the keys of the file."""
    values = resolved(experiment)
    columns = ("kind", "name", "dtype", "multivalued", "label", "mask")
    read = {
        table: [{key: part[key] for key in columns if key in part} for part in values[table]]
        for table in ("features", "tasks")
    }
    return {
        "ingest": {"data": values["data"], **read},
        "fit": {"features": values["features"]},
        "train": {table: values[table] for table in ("model", "training", "tasks")},
        "evaluate": {table: values[table] for table in ("name", "evaluation")},
        "export": {
            "export": {**values["export"], "name": experiment.export.name or experiment.name}
        },
        "statistics": {},  # of what `ingest` and `fit` made
    }


def config_hash(experiment: Experiment) -> str:
    """Hash of all of the configuration that decides an evaluation: all but the export."""
    values = resolved(experiment)
    return fingerprint({key: values[key] for key in values if key != "export"})


def resumable_settings(experiment: Experiment) -> Any:
    """What of the training may not change between a checkpoint and the training that goes on.

    A training may go on for more epochs, or save more often. The number of shards, which may
    follow from the workers, is checked apart.
    """
    free = {"shards", "epochs", "patience", "checkpoint_every", "keep_checkpoints"}
    settings = settings_by_step(experiment)["train"]
    training = {key: value for key, value in settings["training"].items() if key not in free}
    return {**settings, "training": training}
