"""The training of one model with several seeds at once, as compiled functions of JAX.

The losses, the batches, the metric and the early end are those of `pipelines.pretraining`. Every
batch has all places of its histories, since JAX compiles for one shape.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np

from benchmarks.shared.many_seeds import State, chosen, record, stacked
from pipelines.metrics.next_items import ABSENT, NextItems
from recsys_attn.models import get_sequence_model
from recsys_attn.objectives import OBJECTIVES, chunked_scores, item_losses
from recsys_attn.schema import RESERVED_IDS, Schema

AT = (10, 50, 200)
MONITOR = "ndcg@10"
_ROWS = 512  # users that are ranked at a time
_CHUNK_NUMBERS = 2**27  # on a GPU the caches of a processor do not count

Arrays = Mapping[str, np.ndarray]


class Split(NamedTuple):
    """Rows to rank: ids by sequence, the next items, and which items may not rank `(rows, V)`."""

    inputs: dict[str, jax.Array]
    targets: jax.Array
    excluded: jax.Array


class Seeds:
    """A model, its objectives and its optimizer, with the values of each seed.

    Args:
        run: The content of a run's file.
        arrays: The sequences.
        seeds: The seeds.
    """

    def __init__(self, run: Mapping[str, Any], arrays: Arrays, seeds: Sequence[int]) -> None:
        chunked_scores.CHUNK_NUMBERS = item_losses.CHUNK_NUMBERS = _CHUNK_NUMBERS
        self._run, self._options = run, run["training"]
        self.state = stacked([self._start(seed) for seed in seeds])
        self._keys = jnp.stack([jax.random.key(seed) for seed in seeds])
        self.weights = sum(variable.value.size for variable in self._model.trainable_variables)
        prefix = "train/"
        self._rows = {
            name.removeprefix(prefix): jnp.asarray(np.pad(ids, ((0, 1), (0, 0))))
            for name, ids in arrays.items()
            if name.startswith(prefix)
        }
        self._epoch = jax.jit(jax.vmap(self._train, in_axes=(0, 0, None)))
        self._ranks = jax.jit(jax.vmap(self._places, in_axes=(0, None)))
        self.valid, self.test = (_split(arrays, name, self._model.size) for name in _SPLITS)

    def train(self, deadline: float, progress: Any) -> list[dict[str, Any]]:
        """Trains until every seed has stopped, and restores the best weights of each.

        Args:
            deadline: Seconds of `time.time` after which no epoch starts.
            progress: Called with each epoch's record.

        Returns:
            A record of each epoch.
        """
        best, history = self.state, []
        top = np.full(len(self._keys), -1.0)
        best_at = np.zeros(len(top), int)
        running = np.ones(len(top), bool)
        for epoch in range(1, self._options["epochs"] + 1):
            if not running.any() or time.time() > deadline:
                break
            begin = time.perf_counter()
            split = jax.vmap(jax.random.split)(self._keys)
            self._keys = split[:, 0]
            self.state, losses = self._epoch(self.state, split[:, 1], self._rows)
            losses = np.asarray(losses)
            trained = time.perf_counter()
            valid = self.metrics(self.state, self.valid)
            scores: list[Any] = [metrics.metrics()[MONITOR] for metrics in valid]
            better = running & (np.asarray(scores) > top)
            top, best_at = np.where(better, scores, top), np.where(better, epoch, best_at)
            best = chosen(better, self.state, best)
            running &= epoch - best_at < max(self._options["patience"], 1)
            times = begin, trained
            history.append(record(epoch, losses, scores, best_at, running, times))
            progress(history[-1])
        self.state = best
        return history

    def metrics(self, state: State, split: Split) -> list[NextItems]:
        """Returns the metrics of a split by seed."""
        above, equal = map(np.asarray, self._ranks(state, split))
        by_seed = []
        for each_above, each_equal in zip(above, equal, strict=True):
            metrics = NextItems(AT)
            metrics.add(each_above, each_equal, None, np.asarray(split.targets))
            by_seed.append(metrics)
        return by_seed

    def _start(self, seed: int) -> State:
        keras.utils.set_random_seed(seed)
        schema, model = Schema.from_dict(self._run["schema"]), dict(self._run["model"])
        self._model = get_sequence_model(model.pop("name"))(schema, **model)
        sizes = {feature.name: getattr(feature, "size", 0) or 0 for feature in schema.features}
        self._objectives = []
        for arguments in self._run["objectives"]:
            objective = OBJECTIVES[arguments["name"]](
                **{key: value for key, value in arguments.items() if key != "name"}
            )
            objective.prepare(self._model, sizes)
            self._objectives.append(objective)
        parts: list[keras.layers.Layer] = [self._model, *self._objectives]
        self._trained = [v for part in parts for v in part.trainable_variables]
        self._fixed = [v for part in parts for v in part.non_trainable_variables]
        self._optimizer = keras.optimizers.Adam(self._options["learning_rate"])
        self._optimizer.build(self._trained)
        values = (self._trained, self._fixed, self._optimizer.variables)
        return State(*([v.value for v in part] for part in values))

    def _train(
        self, state: State, key: jax.Array, rows: dict[str, jax.Array]
    ) -> tuple[State, jax.Array]:
        """One epoch of one seed; the last batch is filled up with rows without events."""
        users = len(rows[self._run["item"]]) - 1
        size = self._options["batch_size"]
        order = jnp.pad(
            jax.random.permutation(key, users), (0, -users % size), constant_values=users
        )

        def step(state: State, batch: jax.Array) -> tuple[State, jax.Array]:
            inputs = {name: ids[batch] for name, ids in rows.items()}
            result = jax.value_and_grad(self._loss, has_aux=True)(
                state.trained, state.fixed, inputs
            )
            (loss, fixed), gradients = result
            trained, slots = self._optimizer.stateless_apply(state.slots, gradients, state.trained)
            return State(trained, fixed, slots), loss

        state, losses = jax.lax.scan(step, state, order.reshape(-1, size))
        return state, losses.mean()

    def _loss(
        self, trained: list[jax.Array], fixed: list[jax.Array], inputs: dict[str, jax.Array]
    ) -> tuple[jax.Array, list[jax.Array]]:
        with self._scope(trained, fixed) as scope:
            loss = jnp.zeros(())
            for objective in self._objectives:
                term = objective(self._model, inputs)
                loss += objective.weight * term.total / jnp.maximum(term.count, 1.0)
        return loss, [scope.get_current_value(variable) for variable in self._fixed]

    def _places(self, state: State, split: Split) -> tuple[jax.Array, jax.Array]:
        """Numbers of items above each target, and of those with its score."""

        def rank(part: Split) -> tuple[jax.Array, jax.Array]:
            with self._scope(state.trained, state.fixed):
                states = self._model.next_states(part.inputs, training=False)
                scores = self._model.scores(states)
            of_target = jnp.take_along_axis(scores, jnp.maximum(part.targets, 0)[:, None], axis=1)
            ranked = jnp.where(part.excluded, -jnp.inf, scores)
            equal = jnp.sum(ranked == of_target, axis=1) - 1
            return jnp.sum(ranked > of_target, axis=1), jnp.maximum(equal, 0)

        count = len(split.targets)
        chunks = -(-count // _ROWS)
        padded = jax.tree.map(lambda x: _in_chunks(x, chunks), split)
        return jax.tree.map(lambda x: x.reshape(-1)[:count], jax.lax.map(rank, padded))

    def _scope(self, trained: list[jax.Array], fixed: list[jax.Array]) -> Any:
        variables = [*self._trained, *self._fixed]
        return keras.StatelessScope(list(zip(variables, [*trained, *fixed], strict=True)))


_SPLITS = ("valid", "test")


def _split(arrays: Arrays, name: str, size: int) -> Split:
    """The rows of a split, as `pipelines.pretraining.item_ranking` filters them."""
    inputs = {
        key.removeprefix(f"{name}/"): ids for key, ids in arrays.items() if key.startswith(name)
    }
    targets, seen = inputs.pop("targets"), inputs.pop("seen")
    excluded = np.zeros((len(targets), size + 1), bool)  # the last column takes the filling
    np.put_along_axis(excluded, np.where(seen == ABSENT, size, seen), True, axis=1)
    excluded[:, :RESERVED_IDS] = True
    is_out = excluded[np.arange(len(targets)), targets] & (targets >= RESERVED_IDS)
    targets = np.where(is_out, ABSENT, targets)
    features = {name: jnp.asarray(ids) for name, ids in inputs.items()}
    return Split(features, jnp.asarray(targets), jnp.asarray(excluded[:, :size]))


def _in_chunks(x: jax.Array, chunks: int) -> jax.Array:
    x = jnp.pad(x, ((0, chunks * _ROWS - len(x)), *[(0, 0)] * (x.ndim - 1)))
    return x.reshape(chunks, _ROWS, *x.shape[1:])
