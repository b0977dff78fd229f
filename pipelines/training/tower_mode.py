"""The mode of a tower's computation, measured at the start of a long training."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from pipelines.common.artifacts import atomic_file, versions, write_json
from pipelines.common.machine import machine
from pipelines.feed import Feed
from pipelines.feed.tensors import block_tensors
from pipelines.scoring.microbatches import micro_batch_requests
from pipelines.training.tower_gradient import TowerGradient, depends_on_batch
from recsys_attn.models import RankingModel
from recsys_attn.schema import CANDIDATE_MASK

ROWS = 500_000  # of an epoch; with fewer, measuring takes longer than it saves
_CALLS = 3
_GAIN = 1.1  # another mode must be faster than the default by this: measurements vary
_LARGER = 4


class TowerMode(NamedTuple):
    """A mode of computing a tower: the size of its parts, and whether XLA compiles them.

    Attributes:
        micro_batch_size: Candidates of a micro-batch; None for the whole batch.
        jit_compile: Whether XLA compiles it.
    """

    micro_batch_size: int | None
    jit_compile: bool

    def __str__(self) -> str:
        size = self.micro_batch_size
        text = "the whole batch" if size is None else f"{size} candidates"
        return f"{text} at a time{', compiled by XLA' if self.jit_compile else ''}"


class TowerTuner:
    """Measures modes of a tower, and remembers the fastest for this machine.

    Args:
        model: The model.
        feed: The rows of the training.
        settings: The settings that the model is made of, as plain data.
    """

    def __init__(self, model: RankingModel, feed: Feed, settings: Any) -> None:
        self._model = model
        self._feed = feed
        self._settings = settings

    def fastest(self, default: TowerMode, say: Callable[[str], None]) -> TowerMode:
        """The fastest mode to compute the gradient of a batch; the default for a short training.

        Args:
            default: The mode without a measurement; another one is taken only if it is faster by
                a tenth.
            say: Prints a line.
        """
        if self._feed.split.rows < ROWS:
            return default
        memory, key = _memory(), self._key(default)
        known = {} if memory is None else _read(memory)
        if key in known:
            best_mode = TowerMode(**known[key])
            say(f"tower: {best_mode}, the fastest as measured before ({memory})")
            return best_mode
        begin, seconds = time.perf_counter(), self._measured(default)
        if len(seconds) < 2:
            return default
        best = min(seconds, key=seconds.__getitem__)
        best_mode = best if seconds[default] > _GAIN * seconds[best] else default
        if memory is not None:
            _write(memory, {**known, key: best_mode._asdict()})
        times = "; ".join(f"{mode}: {1000 * time_:.0f} ms" for mode, time_ in seconds.items())
        took = time.perf_counter() - begin
        say(f"tower: {best_mode}. Seconds of a batch, measured in {took:.0f} s: {times}")
        return best_mode

    def _key(self, default: TowerMode) -> str:
        """A hash of the machine, the packages, the model and the shape of the batch."""
        model = [self._settings, self._model.schema, self._model.tower.count_params()]
        gpus = [device.name for device in tf.config.list_physical_devices("GPU")]
        threads = tf.config.threading.get_intra_op_parallelism_threads()
        batch = [self._feed.batch_size, self._feed.request, self._feed.negatives is not None]
        operations = os.environ.get("TF_ENABLE_ONEDNN_OPTS")
        facts = [machine(gpus), threads, operations, versions(), model, batch, default]
        return hashlib.sha256(json.dumps(facts, default=repr).encode()).hexdigest()[:16]

    def _measured(self, default: TowerMode) -> dict[TowerMode, float]:
        """Seconds of a batch by mode. The weights and the layers' states stay as they are."""
        batches = self._feed.batches()
        try:
            batch = next(batches)
        finally:
            batches.close()
        tensors = block_tensors(batch.blocks)
        inputs, labels = batch.layout.inputs(tensors), batch.layout.labels(tensors)
        modes = self._modes(default, inputs[CANDIDATE_MASK])
        if len(modes) < 2:
            return {}
        fields = self._model.embedding(inputs)
        state = self._model.tower.non_trainable_variables
        before = [variable.numpy() for variable in state]
        seconds = {}
        for mode in modes:
            try:
                seconds[mode] = self._seconds(mode, fields, labels)
            except tf.errors.OpError:  # XLA cannot compile every operation
                if mode == default:
                    raise
            for variable, value in zip(state, before, strict=True):
                variable.assign(value)
        return seconds

    def _modes(self, default: TowerMode, mask: tf.Tensor) -> list[TowerMode]:
        """The default and others, each of another graph.

        Where layers depend on the batch, a micro-batch keeps its size. XLA compiles each length
        again, so it is left out where requests have several candidates.
        """
        size = default.micro_batch_size
        sizes = [size]
        if size is not None and not depends_on_batch(self._model.tower):
            larger = _LARGER * size
            few, many = (int(micro_batch_requests(mask, rows)) for rows in (size, larger))
            sizes += [larger] if many > few else []
        compiled = (False, True) if mask.shape[1] == 1 else (False,)
        return [TowerMode(size, xla) for xla in compiled for size in sizes]

    def _seconds(self, mode: TowerMode, fields: Any, labels: Mapping[str, tf.Tensor]) -> float:
        """The least of a few calls; the first one, which traces and compiles, is left out."""
        tasks = self._model.schema.tasks
        gradient = TowerGradient(
            self._model.tower, tasks, tf.identity, mode.jit_compile, mode.micro_batch_size
        )
        totals = {task.name: tf.constant(1.0) for task in tasks}

        def compute(fields: Any, labels: Mapping[str, tf.Tensor]) -> tuple[Any, ...]:
            return gradient(fields, labels, totals, 1.0, tf.ones(len(tasks)))[:-1]

        graph, times = tf.function(compute, autograph=False), []
        for _ in range(1 + _CALLS):
            begin = time.perf_counter()
            graph(fields, labels)[0].numpy()
            times.append(time.perf_counter() - begin)
        return min(times[1:])


def _memory() -> Path | None:
    """The file of all measurements of this user; None if the user has no home."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return folder / "recsys-attn" / "towers.json"


def _read(memory: Path) -> dict[str, Any]:
    """Reads earlier measurements; a missing or damaged file counts as empty."""
    with contextlib.suppress(OSError, ValueError):
        measurements = json.loads(memory.read_text("utf-8"))
        if isinstance(measurements, dict):
            return measurements
    return {}


def _write(memory: Path, known: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # a read-only home: measured again next time
        memory.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(memory) as part:
            write_json(part, known)
