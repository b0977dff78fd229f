"""Trains one gate with several seeds at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.boards_on_jax import arrays as names
from benchmarks.boards_on_jax.seeds import Seeds
from benchmarks.boards_on_jax.write import KNOWN
from benchmarks.gate_study.choices import choices
from benchmarks.gate_study.sets import DrawnSet
from benchmarks.gate_study.variants import SHARED_BOTTOM, model_arguments
from pipelines.experiment.training_options import TrainingOptions
from recsys_attn.schema import Schema

# With the default rate most seeds would train for more than twelve epochs.
_TRAINING = TrainingOptions(epochs=8, learning_rate=6e-3, learning_rate_decay=0.85)
_SEEN = 300  # validation rows whose gates are looked at


def trained(gate: str, drawn: DrawnSet, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Returns the results of each seed, of the best epoch of the validation rows.

    Args:
        gate: A name of `GATES`.
        drawn: The rows of the seeds.
        seeds: The seeds.
    """
    begin = time.perf_counter()
    schema = Schema.from_dict(drawn.schema)
    rows = drawn.arrays[names.of_label("train", schema.tasks[0].name)].shape[1]
    training = _TRAINING.model_dump() | {"batch_size": _TRAINING.batch_of(rows)}
    run = {
        "name": gate,
        "schema": drawn.schema,
        "model": model_arguments(gate, schema),
        "training": {key: training[key] for key in KNOWN},
        "monitor": {task.name: "auc" for task in schema.tasks},
    }
    training_of_seeds = Seeds(run, drawn.arrays, seeds, by_seed=True)
    looked_at = gate != SHARED_BOTTOM
    at_start = _choices(training_of_seeds, drawn) if looked_at else [{} for _ in seeds]
    history = training_of_seeds.train(np.inf, lambda epoch: None)
    at_end = _choices(training_of_seeds, drawn) if looked_at else [{} for _ in seeds]
    valid, test = (training_of_seeds.metrics(split) for split in ("valid", "test"))
    return [
        {
            "gate": gate, "seed": seed, "valid": valid[place], "test": test[place],
            "start": at_start[place], "end": at_end[place],
            "best": history[-1]["best"][place], "epochs": len(history),
            "weights": training_of_seeds.weights, "model": run["model"],
            "seconds": round(time.perf_counter() - begin, 1),
        }
        for place, seed in enumerate(seeds)
    ]  # fmt: skip


def _choices(trained: Seeds, drawn: DrawnSet) -> list[dict[str, float]]:
    """The choices of the gates of each seed."""
    inputs = {
        key.partition("/")[2]: value[:, :_SEEN]
        for key, value in drawn.arrays.items()
        if key.startswith("valid/") and "/label/" not in key
    }
    return [
        choices(trained.model_of(place), {name: value[place] for name, value in inputs.items()})
        for place in range(len(next(iter(inputs.values()))))
    ]
