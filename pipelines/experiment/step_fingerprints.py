"""The settings that determine each step's result, as plain data and as a hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.common.artifacts import fingerprint
from pipelines.ingest.source import SOURCES
from pipelines.storage.filesystem import without_credentials
from recsys_attn.id_transforms import OwnTransform

if TYPE_CHECKING:
    from pipelines.experiment.config import Experiment


def resolved(experiment: Experiment) -> dict[str, Any]:
    """The whole experiment as saved in a run folder: all keys, no passwords of URIs."""
    values = experiment.model_dump(mode="json")
    values["data"]["path"] = shown_paths(values["data"]["path"])
    for name in ("items", "users"):
        table = values["data"][name]
        if table is not None:
            table["path"] = shown_paths(table["path"])
    for feature in values["features"]:
        if feature["column"] is None:  # as in the runs of older versions
            del feature["column"]
    return values


def shown_paths(paths: Any) -> Any:
    """The paths, or lists or tables of them, without the passwords of URIs."""
    if isinstance(paths, dict):
        return {name: shown_paths(value) for name, value in paths.items()}
    if isinstance(paths, list):
        return [shown_paths(value) for value in paths]
    return paths if paths is None else without_credentials(paths)


def settings_by_step(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """The settings that determine each step's result, by the keys of the file."""
    values = resolved(experiment)
    columns = ("kind", "name", "column", "dtype", "multivalued", "label", "mask")
    read = {
        table: [{key: part[key] for key in columns if key in part} for part in values[table]]
        for table in ("features", "tasks")
    }
    modules = {"imports": experiment.own_parts.hashes()} if experiment.imports else {}
    uses_source = SOURCES[experiment.data.source].func is not None
    uses_transform = any(
        isinstance(feature.transform, OwnTransform) for feature in experiment.features
    )
    return {
        "ingest": {"data": values["data"], **read, **(modules if uses_source else {})},
        "fit": {"features": values["features"], **(modules if uses_transform else {})},
        "train": {**{table: values[table] for table in ("model", "training", "tasks")}, **modules},
        "evaluate": {
            **{table: values[table] for table in ("name", "evaluation")},
            **(modules if experiment.evaluation.metrics else {}),
        },
        "export": {
            "export": {**values["export"], "name": experiment.export.name or experiment.name}
        },
        "statistics": {},  # depends on the inputs only
    }


def config_hash(experiment: Experiment) -> str:
    """Hash of all settings that influence an evaluation, without export and refresh."""
    values = resolved(experiment)
    return fingerprint(
        {key: values[key] for key in values if key not in ("export", "refresh", "imports_from")}
    )


def resumable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a training that must not change when it resumes.

    It may resume with more epochs, other checkpoints or more seeds of an ensemble. The number of
    shards, which may follow from the workers, is checked separately.

    Args:
        settings: Those of the step `train`.
    """
    free = {"shards", "epochs", "patience", "checkpoint_every", "keep_checkpoints"}
    training = {key: value for key, value in settings["training"].items() if key not in free}
    model = {key: value for key, value in settings["model"].items() if key != "seeds"}
    return {**settings, "training": training, "model": model}
