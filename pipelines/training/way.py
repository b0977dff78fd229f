"""The way in which a tower is computed: measured at the start of a long training."""

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

from pipelines.common.artifacts import atomic_file, read_json, versions, write_json
from pipelines.common.machine import machine
from pipelines.feed import Feed
from pipelines.feed.tensors import block_tensors
from pipelines.training.tower_gradient import SEED_STATE, TowerGradient
from recsys_attn.models import RankingModel
from recsys_attn.schema import CANDIDATE_MASK

ROWS = 500_000  # of an epoch; with fewer, measuring takes longer than it saves
_CALLS = 3
_GAIN = 1.1  # by which another way must be faster than the usual one: measurements vary
_MORE_ROWS = 4


class Way(NamedTuple):
    """How a tower is computed."""

    rows: int | None  # candidates of a micro-batch; None for the whole batch
    compiled: bool  # by XLA

    def __str__(self) -> str:
        size = "the whole batch" if self.rows is None else f"{self.rows} candidates"
        return f"{size} at a time{', compiled by XLA' if self.compiled else ''}"


class Ways:
    """Measures ways to compute a tower, and remembers the fastest for this machine.

    Args:
        model: The model.
        feed: The rows of the training.
        settings: What the model is made of, to know it again.
    """

    def __init__(self, model: RankingModel, feed: Feed, settings: Any) -> None:
        self._model = model
        self._feed = feed
        self._settings = settings
        self._memory = _cache() / "ways.json"

    def fastest(self, usual: Way, say: Callable[[str], None]) -> Way:
        """The fastest way to compute the gradient of a batch; the usual one for a short training.

        Args:
            usual: The way without a measurement, from which another one must differ by a tenth.
            say: Prints a line.
        """
        if self._feed.split.rows < ROWS:
            return usual
        key, known = self._key(usual), read_json(self._memory) if self._memory.exists() else {}
        if key in known:
            found = Way(**known[key])
            say(f"tower: {found}, the fastest way as measured before ({self._memory})")
            return found
        begin, seconds = time.perf_counter(), self._measured(usual)
        best = min(seconds, key=seconds.__getitem__)
        found = best if seconds[usual] > _GAIN * seconds[best] else usual
        with contextlib.suppress(OSError):  # a home that is read-only: measured again next time
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(self._memory) as part:
                write_json(part, {**known, key: found._asdict()})
        each = "; ".join(f"{way}: {1000 * time_:.0f} ms" for way, time_ in seconds.items())
        took = time.perf_counter() - begin
        say(f"tower: {found}. Measured in {took:.0f} s, a batch takes with {each}")
        return found

    def _key(self, usual: Way) -> str:
        """Of the machine, the packages, the model and the batch."""
        model = [self._settings, self._model.schema, self._model.tower.count_params()]
        gpus = [device.name for device in tf.config.list_physical_devices("GPU")]
        facts = [machine(gpus), versions(), model, self._feed.batch_size, usual]
        return hashlib.sha256(json.dumps(facts, default=repr).encode()).hexdigest()[:16]

    def _measured(self, usual: Way) -> dict[Way, float]:
        """Seconds of a batch by way. The weights and the layers' states stay as they are."""
        batches = self._feed.batches()
        try:
            batch = next(batches)
        finally:
            batches.close()
        tensors = block_tensors(batch.blocks)
        inputs, labels = batch.layout.inputs(tensors), batch.layout.labels(tensors)
        fields = self._model.embedding(inputs)
        state = self._model.tower.non_trainable_variables
        before = [variable.numpy() for variable in state]
        found = {}
        for way in self._ways(usual, inputs[CANDIDATE_MASK].shape[1]):
            try:
                found[way] = self._seconds(way, fields, labels)
            except tf.errors.OpError:  # XLA cannot compile every operation
                if way == usual:
                    raise
            for variable, value in zip(state, before, strict=True):
                variable.assign(value)
        return found

    def _ways(self, usual: Way, candidates: int) -> list[Way]:
        """The usual way and others that give the same step.

        Statistics of a batch are those of a micro-batch, which then keeps its rows. XLA compiles
        each length again, so it is left out where requests have several candidates.
        """
        state = self._model.tower.non_trainable_variables
        statistics = any(variable.name != SEED_STATE for variable in state)
        sizes = [usual.rows]
        if usual.rows is not None and not statistics:
            sizes.append(_MORE_ROWS * usual.rows)
        return [Way(rows, xla) for xla in (False, True)[: 1 + (candidates == 1)] for rows in sizes]

    def _seconds(self, way: Way, fields: Any, labels: Mapping[str, tf.Tensor]) -> float:
        """The least of a few calls; the first one, which traces and compiles, is left out."""
        tasks = self._model.schema.tasks
        gradient = TowerGradient(self._model.tower, tasks, tf.identity, way.compiled, way.rows)
        totals = {task.name: tf.constant(1.0) for task in tasks}

        def compute(fields: Any, labels: Mapping[str, tf.Tensor]) -> tuple[Any, ...]:
            return gradient(fields, labels, totals, 1, tf.ones(len(tasks)))[:-1]

        graph, times = tf.function(compute, autograph=False), []
        for _ in range(1 + _CALLS):
            begin = time.perf_counter()
            graph(fields, labels)[0].numpy()
            times.append(time.perf_counter() - begin)
        return min(times[1:])


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "recsys-attn"
