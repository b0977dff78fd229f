"""Ours on TensorFlow: the engine's step, with the optimizer that training has by default."""

from __future__ import annotations

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from benchmarks.peers.contender import run
from benchmarks.peers.data import Batch
from benchmarks.peers.ours_model import blocks_of, inputs_of, make_model, make_schema
from benchmarks.peers.settings import Settings
from pipelines.experiment.training_options import TrainingOptions
from pipelines.feed import Layout
from pipelines.scoring.microbatches import micro_batch_rows, one_thread_each
from pipelines.training.optimizer import make_optimizer
from pipelines.training.step import TrainStep
from recsys_attn.schema import Schema


class Ours:
    """Row-wise Adam for the tables and Adam for the rest, one step for each call."""

    def __init__(self, settings: Settings, schema: Schema | None = None) -> None:
        if settings.micro_batch_size != 0:
            one_thread_each()
        keras.utils.set_random_seed(0)
        keras.config.set_dtype_policy(settings.precision)
        schema = schema or make_schema(settings)
        self.model = make_model(settings, schema)
        self.optimizer = make_optimizer(
            TrainingOptions(learning_rate=settings.learning_rate), self.model.trainable_variables
        )
        self.engine = TrainStep(
            self.model,
            self.optimizer,
            Layout.of(schema),
            settings.compiled,
            micro_batch_rows(settings.micro_batch_size, self.model.tower),
        )
        self._predict = tf.function(self._probabilities, reduce_retracing=True)

    def step(self, batch: Batch) -> float:
        return self.engine([blocks_of(batch)]).loss

    def scores(self, batch: Batch) -> np.ndarray:
        return self._predict(inputs_of(blocks_of(batch))).numpy()

    def _probabilities(self, inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return tf.stack(list(self.model.probabilities(inputs).values()), axis=-1)

    def memory(self) -> Mapping[str, float]:
        sizes = {"weights": size(self.model.variables), "slots": size(self.optimizer.variables)}
        if tf.config.list_physical_devices("GPU"):
            sizes["device"] = tf.config.experimental.get_memory_info("GPU:0")["peak"]
        return sizes


def size(variables: list[keras.Variable]) -> float:
    """Bytes of the numbers."""
    return float(sum(np.prod(v.shape) * np.dtype(v.dtype).itemsize for v in variables))


if __name__ == "__main__":
    run(Ours)
