"""The workers that train together, and their devices."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.common.errors import PipelineError
from pipelines.feed.order import ShardPosition

_GONE = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.InternalError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)


@dataclass(frozen=True)
class Workers:
    """This worker among those that train together, each with its own replicas.

    Args:
        strategy: TensorFlow's distribution strategy.
        index: Index of this worker.
        count: Number of workers.
    """

    strategy: tf.distribute.Strategy
    index: int = 0
    count: int = 1

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes the results."""
        return self.index == 0

    @property
    def replicas(self) -> int:
        """Number of replicas of all workers."""
        return self.strategy.num_replicas_in_sync

    @property
    def own_replicas(self) -> range:
        """Indices of this worker's replicas."""
        count = self.replicas // self.count
        return range(self.index * count, (self.index + 1) * count)

    def shards(self, shards: int) -> list[tuple[int, ...]]:
        """The shards of each replica of this worker.

        Args:
            shards: Number of shards of the data.
        """
        if shards % self.replicas:
            raise PipelineError(
                f"`training.shards`: expected a multiple of the {self.replicas} replicas that "
                f"train together. Received: {shards}."
            )
        count = shards // self.replicas
        return [tuple(range(r * count, (r + 1) * count)) for r in self.own_replicas]

    def gathered(self, places: tuple[ShardPosition, ...]) -> tuple[ShardPosition, ...]:
        """Gathers the places of all workers' shards."""
        if self.count == 1 or not places:
            return places
        first, count = self.own_replicas[0], len(places) // len(self.own_replicas)
        numbers = np.zeros((self.replicas * count, 2), "int64")
        numbers[first * count : first * count + len(places)] = places
        return tuple((int(chunk), int(request)) for chunk, request in self._sum(numbers))

    def any(self, wish: bool) -> bool:
        """Whether `wish` is true on any worker."""
        return wish if self.count == 1 else bool(self._sum(np.array([wish], "int64"))[0])

    def _sum(self, numbers: np.ndarray) -> np.ndarray:
        """The sum of an array over all workers."""

        def everything() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            is_first = tf.equal(context.replica_id_in_sync_group, self.own_replicas[0])
            mine = tf.constant(numbers) * tf.cast(is_first, "int64")
            return context.all_reduce(tf.distribute.ReduceOp.SUM, mine)

        with self.together():
            results = tf.function(lambda: self.strategy.run(everything))()
            return self.strategy.experimental_local_results(results)[0].numpy()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Turns TensorFlow's errors for a lost worker into a `PipelineError`."""
        try:
            yield
        except _GONE as error:
            if self.count == 1:
                raise
            raise PipelineError(
                f"Worker {self.index} of {self.count} stopped, since another worker is gone "
                f"({type(error).__name__}). Start all workers again: training resumes from the "
                "last checkpoint."
            ) from None


def find_workers() -> Workers:
    """The workers of `TF_CONFIG`, else all GPUs of this machine, else one device.

    Must be called before TensorFlow does anything else.
    """
    config = _tf_config()
    workers = config.get("cluster", {}).get("worker", [])
    if len(workers) > 1:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        return Workers(strategy, int(config["task"]["index"]), len(workers))
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return Workers(tf.distribute.MirroredStrategy())
    return Workers(tf.distribute.get_strategy())


def worker_index() -> int:
    """Index of this worker in `TF_CONFIG`; 0 for a single worker."""
    return int(_tf_config().get("task", {}).get("index", 0))


def worker_count() -> int:
    """Number of workers in `TF_CONFIG`; 1 for a single worker."""
    return max(1, len(_tf_config().get("cluster", {}).get("worker", [])))


def _tf_config() -> dict[str, Any]:
    """Reads `TF_CONFIG`, as TensorFlow and Kubernetes' TFJob write it; workers only."""
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = json.loads(text)
        cluster, task = config.get("cluster", {}), config.get("task", {})
        workers = cluster.get("worker", [])
        fits = task.get("type", "worker") == "worker" and set(cluster) <= {"worker"}
        fits = fits and (not workers or 0 <= int(task["index"]) < len(workers))
    except (ValueError, AttributeError, KeyError, TypeError):
        fits = False
    if not fits:
        raise PipelineError(
            'TF_CONFIG: expected {"cluster": {"worker": ["host:port", ...]}, "task": {"type": '
            f'"worker", "index": 0}}}}, with workers alone. Received: {text}'
        )
    return config
