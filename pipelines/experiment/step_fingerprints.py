"""The settings that determine each step's result, as plain data and as a hash."""

from __future__ import annotations

from typing import Any

from pipelines.common.artifacts import fingerprint
from pipelines.experiment.config import Experiment
from pipelines.storage.filesystem import without_credentials


def resolved(experiment: Experiment) -> dict[str, Any]:
    """The whole experiment as saved in a run folder: all keys, no passwords of URIs."""
    values = experiment.model_dump(mode="json")
    for table in filter(None, (values["data"], values["data"]["items"])):
        path = table["path"]
        if isinstance(path, str):
            table["path"] = without_credentials(path)
        elif path is not None:
            table["path"] = [without_credentials(place) for place in path]
    return values


def settings_by_step(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """The settings that determine each step's result, by the keys of the file."""
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
        "statistics": {},  # depends on the inputs only
    }


def config_hash(experiment: Experiment) -> str:
    """Hash of all settings that influence an evaluation: all but the export."""
    values = resolved(experiment)
    return fingerprint({key: values[key] for key in values if key != "export"})


def resumable_settings(experiment: Experiment) -> Any:
    """The training settings that must not change when a training resumes.

    It may resume with more epochs or other checkpoints. The number of shards, which may follow
    from the workers, is checked separately.
    """
    free = {"shards", "epochs", "patience", "checkpoint_every", "keep_checkpoints"}
    settings = settings_by_step(experiment)["train"]
    training = {key: value for key, value in settings["training"].items() if key not in free}
    return {**settings, "training": training}
