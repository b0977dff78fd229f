"""The identity of a run, as its evaluation's metrics.json and the report have it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import tensorflow as tf

from pipelines.common.machine import machine
from pipelines.experiment.config import Experiment
from pipelines.experiment.description import described
from pipelines.experiment.step_fingerprints import config_hash
from pipelines.workflow.run import Run
from recsys_attn.schema import Schema

_STEPS = ("ingest", "fit", "train")


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


def this_machine() -> dict[str, Any]:
    """The hardware of this machine, with the accelerators that TensorFlow uses."""
    found = [device for device in tf.config.list_physical_devices() if device.device_type != "CPU"]
    details = (tf.config.experimental.get_device_details(device) for device in found)
    return machine([str(one.get("device_name", "unnamed")) for one in details])
