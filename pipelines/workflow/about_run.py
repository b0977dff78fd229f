"""The identity of a run, as its evaluation's metrics.json and the report have it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import tensorflow as tf

from pipelines.common.artifacts import versions
from pipelines.common.machine import machine
from pipelines.experiment.config import Experiment
from pipelines.experiment.step_fingerprints import config_hash
from pipelines.report.data import machine_text
from pipelines.workflow.run import Run
from recsys_attn.schema import Schema

_STEPS = ("ingest", "fit", "train")
_TABLES = ("model", "training", "evaluation")


def about_run(experiment: Experiment, run: Run, schema: Schema) -> dict[str, Any]:
    """Name, hashes, seed, versions, times, hardware, training curve, splits and settings of a run.

    Args:
        experiment: The experiment.
        run: The folder, with the finished steps before the evaluation.
        schema: The fitted schema of the model.
    """
    manifests = {step: run.manifest(step) for step in _STEPS}
    data, train = manifests["ingest"], manifests["train"]
    return {
        "name": experiment.name,
        "model": train["model"],
        "seed": experiment.seed,
        "config_hash": config_hash(experiment),
        "data_hash": data["data_hash"],
        "versions": train["versions"],
        "evaluated": datetime.now(UTC).isoformat(timespec="seconds"),
        "trained": train["created"],
        "seconds": {step: manifest["seconds"] for step, manifest in manifests.items()},
        "machines": {"training": train.get("machine"), "evaluation": this_machine()},
        "training": train["training"],
        "kept": train["kept"],
        "splits": data["rows"],
        "labels": data["labels"],
        "times": data["times"],
        **described(experiment, schema),
    }


def packages_and_machine() -> dict[str, str]:
    """The versions of the packages and the hardware of this machine, in words."""
    return {
        "packages": ", ".join(f"{name} {number}" for name, number in versions().items()),
        "machine": machine_text(this_machine()),
    }


def this_machine() -> dict[str, Any]:
    """The hardware of this machine, with the accelerators that TensorFlow uses."""
    accelerators = [
        device for device in tf.config.list_physical_devices() if device.device_type != "CPU"
    ]
    details = (tf.config.experimental.get_device_details(device) for device in accelerators)
    return machine([str(one.get("device_name", "unnamed")) for one in details])


def described(experiment: Experiment, schema: Schema) -> dict[str, Any]:
    """Settings by dotted key, and the features of the model.

    Args:
        experiment: The experiment.
        schema: The fitted schema of the model, with the sizes of its tables.
    """
    values = experiment.resolved
    settings = {table: values[table] for table in _TABLES}
    settings["evaluation"].pop("gates")  # the report has a table of them
    data = values["data"]
    settings["data"] = {key: data[key] for key in ("source", "path", "request", "split", "items")}
    for kind in ("histories", "aggregates"):
        settings["data"][kind] = {column["name"]: column for column in data[kind]}
    settings["tasks"] = {task["name"]: task for task in values["tasks"]}
    return {
        "settings": dict(_flat(settings)),
        "features": [
            {
                "name": feature.name,
                "kind": feature.kind,
                "side": feature.side,
                "transform": _transform(feature.transform),
                "table_rows": getattr(feature, "size", None),
            }
            for feature in schema.features
        ],
    }


def _flat(values: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Set values by dotted key."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _flat(value, f"{key}.{name}" if key else name)
    elif values not in (None, [], ""):
        yield key, values


def _transform(transform: Any) -> str:
    return ", ".join(transform) if isinstance(transform, tuple) else transform.kind
