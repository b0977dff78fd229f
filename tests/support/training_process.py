"""Trains in a process of its own, which may be killed: `python -m ... PREPARED FOLDER OPTIONS`.

OPTIONS is JSON: the experiment's that differ, and with `"kill"` the process is killed so many
seconds after its first step; a negative number is a SIGTERM instead. With `"devices"` the
processor is as many devices, in place of GPUs. The weights end up in `FOLDER/weights-N.npz`, with
the number of the worker.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from rich.console import Console

from pipelines.common.progress import Progress
from pipelines.features import FittedFeatures
from pipelines.training import OutputPaths, TrainingData, train
from pipelines.training.trainer import Trainer
from pipelines.training.workers import Workers
from serving.state.errors import DataError
from tests.support.experiments import load

OPTIONS = {
    "training__batch_size": 13,
    "training__epochs": 3,
    "training__patience": 9,
    "training__checkpoint_every": 7,
    "training__shuffle_rows": 300,
    "training__warmup_steps": 20,
    "training__cosine_steps": 200,
    "training__reduce_on_plateau": 0.5,
    # Quick to trace; its state is in tables, dropout's seed and Dice's moving averages.
    "model": {"name": "mlp", "width": 4, "units": [8], "activation": "dice"},
    "model__dropout": 0.1,
}


def main(
    prepared: Path, folder: Path, kill: float | None = None, devices: int = 1, **options: Any
) -> None:
    if devices > 1:
        _make_devices(devices)
    if kill is not None:
        _kill_after_first_step(abs(kill), signal.SIGTERM if kill < 0 else signal.SIGKILL)
    worker = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0)
    own = folder / str(worker)
    own.mkdir(exist_ok=True)
    try:
        model, history, *_ = train(
            load(own, **{**OPTIONS, **options}),
            TrainingData(
                prepared / "data", "request_id", FittedFeatures.load(prepared / "features")
            ),
            OutputPaths(folder / "checkpoints", folder / "tensorboard", "key"),
            Progress(Console(width=80)),
        )
    except DataError as error:
        sys.exit(str(error))
    arrays = {str(index): v.numpy() for index, v in enumerate(model.variables)}
    losses = np.array([epoch["loss"] for epoch in history])
    np.savez(folder / f"weights-{worker}.npz", losses=losses, **arrays)


def _make_devices(count: int) -> None:
    (processor,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(processor, parts)
    names = [f"CPU:{number}" for number in range(count)]
    module = sys.modules["pipelines.training.train"]
    module.find_workers = lambda: Workers(tf.distribute.MirroredStrategy(names))


def _kill_after_first_step(seconds: float, number: signal.Signals) -> None:
    steps = Trainer._steps

    def timed(self: Trainer, *arguments: object) -> object:
        for done in steps(self, *arguments):
            if timer.ident is None:
                timer.start()
            yield done

    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    Trainer._steps = timed


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), **json.loads(sys.argv[3]))
