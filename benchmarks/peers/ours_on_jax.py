"""Ours on JAX: the same layers and optimizer in a plain compiled step.

It imports nothing of TensorFlow. On JAX the gradient of a table is as large as the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import keras
import numpy as np
from keras import ops

from benchmarks.peers.contender import run
from benchmarks.peers.data import Batch
from benchmarks.peers.ours_model import blocks_of, inputs_of, make_model, make_schema
from benchmarks.peers.settings import Settings
from recsys_attn.optimizers import LazyAdam, Split

State = tuple[list[Any], list[Any], list[Any]]  # trainable, not trainable, the optimizer's


class OursOnJax:
    """Row-wise Adam for the tables and Adam for the rest, one compiled step for each call."""

    def __init__(self, settings: Settings) -> None:
        # Products of float32 are of float32, as those of PyTorch.
        jax.config.update("jax_default_matmul_precision", "float32")
        keras.utils.set_random_seed(0)
        keras.config.set_dtype_policy(settings.precision)
        self.model = model = make_model(settings, make_schema(settings))
        rate = settings.learning_rate
        self.optimizer = Split(LazyAdam(rate), keras.optimizers.Adam(rate))
        self.optimizer.build(model.trainable_variables)
        parts = model.trainable_variables, model.non_trainable_variables, self.optimizer.variables
        trainable, fixed, slots = ([v.value for v in part] for part in parts)
        self._state: State = trainable, fixed, slots
        self._train = jax.jit(self._take_step, donate_argnums=0)
        self._predict = jax.jit(self._logits)

    def step(self, batch: Batch) -> float:
        self._state, loss = self._train(self._state, blocks_of(batch))
        return float(jax.block_until_ready((self._state, loss))[1])

    def scores(self, batch: Batch) -> np.ndarray:
        return np.asarray(self._predict(self._state, blocks_of(batch)))

    def memory(self) -> Mapping[str, float]:
        trainable, fixed, slots = (float(sum(v.nbytes for v in part)) for part in self._state)
        sizes = {"weights": trainable + fixed, "slots": slots}
        device = jax.local_devices()[0]
        if device.platform != "cpu":
            sizes["device"] = float((device.memory_stats() or {}).get("peak_bytes_in_use", 0))
        return sizes

    def _take_step(self, state: State, blocks: Mapping[str, jax.Array]) -> tuple[State, jax.Array]:
        trainable, fixed, slots = state

        def loss_of(trainable: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
            logits, after = self._call(trainable, fixed, blocks, training=True)
            losses = [
                ops.mean(ops.binary_crossentropy(label, logit, from_logits=True))
                for label, logit in zip(
                    ops.unstack(blocks["labels"], axis=-1), logits.values(), strict=True
                )
            ]
            return ops.sum(ops.stack(losses)), after

        (loss, fixed), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable)
        trainable, slots = self.optimizer.stateless_apply(slots, gradients, trainable)
        return (trainable, fixed, slots), loss

    def _logits(self, state: State, blocks: Mapping[str, jax.Array]) -> jax.Array:
        trainable, fixed, _ = state
        logits, _ = self._call(trainable, fixed, blocks, training=False)
        return ops.stack(list(logits.values()), axis=-1)

    def _call(
        self,
        trainable: list[jax.Array],
        fixed: list[jax.Array],
        blocks: Mapping[str, jax.Array],
        training: bool,
    ) -> tuple[dict[str, jax.Array], list[jax.Array]]:
        """Returns the logits, and the non-trainable variables after the call."""
        variables = self.model.trainable_variables + self.model.non_trainable_variables
        values = zip(variables, trainable + fixed, strict=True)
        with keras.StatelessScope(state_mapping=list(values)) as scope:
            logits = self.model(inputs_of(blocks), training=training)
        rest = self.model.non_trainable_variables
        return logits, [scope.get_current_value(variable) for variable in rest]


if __name__ == "__main__":
    run(OursOnJax)
