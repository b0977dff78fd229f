"""What all contenders do alike: a process gets settings and prints one line of JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.peers.data import Batch, load, true_logits
from benchmarks.peers.settings import Settings

MEGABYTE = 2**20


class Contender(Protocol):
    """A model and how it is trained."""

    def step(self, batch: Batch) -> float:
        """Takes a training step, and returns its loss when all of it is done."""

    def scores(self, batch: Batch) -> np.ndarray:
        """Logits or probabilities `(B, T, tasks)`."""

    def memory(self) -> Mapping[str, float]:
        """Bytes of `weights` and of the optimizer's `slots`, and on a GPU the `device` peak."""


@dataclass(frozen=True)
class Measured:
    """What a contender prints.

    Attributes:
        rows_per_second: From the median of the steps.
        loss: Of the last step.
        peak: Megabytes that the process needed at most.
        weights, slots: Megabytes.
        device: Megabytes at most on the GPU.
        auc: Mean of the tasks, on the held-out part.
        input_wait: Share of the time in which the step waited for rows.
    """

    rows_per_second: float
    loss: float
    peak: float
    weights: float
    slots: float
    device: float | None = None
    auc: float | None = None
    input_wait: float | None = None


def run(make: Callable[[Settings], Contender]) -> None:
    """Trains as the settings on the command line say, and prints the measurements."""
    settings = Settings(**json.loads(sys.argv[1]))
    contender, batches = make(settings), list(load(settings, "train").cut(settings.batch))
    seconds, first = [], settings.warm_up
    for number in range(max(first + settings.steps, settings.auc_steps)):
        batch = batches[number % len(batches)]
        begin = time.perf_counter()
        loss = contender.step(batch)
        seconds.append(time.perf_counter() - begin)
    result = Measured(
        settings.batch / float(np.median(seconds[first : first + settings.steps])),
        loss,
        peak_memory(),
        **{name: size / MEGABYTE for name, size in contender.memory().items()},
        auc=held_out_auc(contender, settings) if settings.auc_steps else None,
    )
    print(json.dumps(asdict(result)))


def held_out_auc(contender: Contender, settings: Settings) -> float:
    """The mean of the tasks' AUC."""
    test = load(settings, "test")
    return mean_auc(test, np.concatenate([contender.scores(b) for b in test.cut(settings.batch)]))


def best_auc(settings: Settings) -> float:
    """That of the model that the labels were drawn from."""
    return mean_auc(load(settings, "test"), true_logits(settings))


def mean_auc(test: Batch, scores: np.ndarray) -> float:
    """Of the tasks, which are the last axis."""
    tasks = test.labels.shape[-1]
    pairs = zip(test.labels.reshape(-1, tasks).T, scores.reshape(-1, tasks).T, strict=True)
    return float(np.mean([auc(labels, of_task) for labels, of_task in pairs]))


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """How often a positive has the larger score; half where they are equal."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positives = labels.sum()
    above = rank[labels > 0].sum() - positives * (positives + 1) / 2
    return float(above / (positives * (len(labels) - positives)))


def peak_memory() -> float:
    """Megabytes of this process, without those that its parent had when it made it."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTE  # macOS: bytes
