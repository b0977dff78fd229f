"""The training of one ranking model with several seeds at once, as compiled functions of JAX.

Losses, penalties, optimizers and the metric are those of `pipelines.training`, and so is the early
end where the first epoch has learned something: here epochs at chance count too. The last batch of
an epoch is filled up with requests of its first, since JAX compiles for one shape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from benchmarks.boards_on_jax import arrays as names
from benchmarks.boards_on_jax.encoder import started
from benchmarks.shared.many_seeds import State, chosen, record, stacked
from pipelines.metrics.score_order import auc_by_class
from recsys_attn import models
from recsys_attn.embedding_tables import plan_tables
from recsys_attn.losses import task_loss
from recsys_attn.models import RankingModel
from recsys_attn.optimizers import LazyAdam, Split
from recsys_attn.schema import CANDIDATE_MASK, Schema

LEAST = 1e-5  # smallest improvement that counts, as in pipelines.training.history
_ROWS = 8192  # candidates that are scored at a time
_ROW_L2 = 3.0  # of row-wise optimizers, unless the experiment sets another

Arrays = Mapping[str, Any]


class Seeds:
    """A model and its optimizer, with the values of each seed.

    Args:
        run: The content of a model's file.
        arrays: The rows of all splits, and the weights of the encoder, if there is one.
        seeds: The seeds.
        by_seed: Whether each seed has rows of its own: the first axis of the arrays.
    """

    def __init__(
        self, run: Mapping[str, Any], arrays: Arrays, seeds: Sequence[int], by_seed: bool = False
    ) -> None:
        self._run, self._options, self._arrays = run, run["training"], arrays
        self._schema = Schema.from_dict(run["schema"])
        self._l2 = 0.0
        self.state = stacked([self._start(seed) for seed in seeds])
        self._keys = jnp.stack([jax.random.key(seed) for seed in seeds])
        self.weights = sum(variable.value.size for variable in self._model.trainable_variables)
        self._splits = {name: self._rows(arrays, name) for name in ("train", "valid", "test")}
        axis = 0 if by_seed else None
        self._epoch = jax.jit(jax.vmap(self._train, in_axes=(0, 0, 0, axis)), donate_argnums=0)
        self._scores = jax.jit(jax.vmap(self._score, in_axes=(0, axis)))

    def train(self, deadline: float, progress: Callable[[Mapping[str, Any]], None]) -> list[Any]:
        """Trains until every seed has stopped, and restores the best weights of each.

        Args:
            deadline: Seconds of `time.time` after which no epoch starts.
            progress: Called with each epoch's record.

        Returns:
            A record of each epoch.
        """
        options, count = self._options, len(self._keys)
        best, history = jax.tree.map(jnp.copy, self.state), []
        top, best_at, worse = np.full(count, -np.inf), np.zeros(count, int), np.zeros(count)
        running = np.ones(count, bool)
        for epoch in range(1, options["epochs"] + 1):
            if not running.any() or time.time() > deadline:
                break
            begin = time.perf_counter()
            rate = options["learning_rate_decay"] ** (epoch - 1)
            rates = rate * options["reduce_on_plateau"] ** worse
            split = jax.vmap(jax.random.split)(self._keys)
            self._keys = split[:, 0]
            arguments = self.state, split[:, 1], jnp.asarray(rates, "float32")
            self.state, losses = self._epoch(*arguments, self._splits["train"])
            losses = np.asarray(losses)
            if not np.isfinite(losses).all():
                raise FloatingPointError(f"{self._run['name']} diverged: losses {losses}")
            trained = time.perf_counter()
            scores = np.array([np.mean(list(aucs.values())) for aucs in self.metrics("valid")])
            is_better = scores - LEAST > top
            top, worse = np.where(is_better, scores, top), worse + ~is_better
            best_at = np.where(is_better & running, epoch, best_at)
            best = chosen(is_better & running, self.state, best)
            running &= (epoch - best_at < max(options["patience"], 1)) | (epoch == 1)
            times = begin, trained
            history.append(record(epoch, losses, scores.tolist(), best_at, running, times))
            progress(history[-1])
        self.state = best
        return history

    def metrics(self, split: str) -> list[dict[str, float]]:
        """Returns the AUC of each monitored task, by seed."""
        labels = self._splits[split]["labels"]
        metrics: list[dict[str, float]] = [{} for _ in self._keys]
        for place, (task, scores) in enumerate(self.scores(split).items()):
            if task in self._run["monitor"]:
                of_seeds = np.broadcast_to(labels[..., place], scores.shape)
                for by_task, score, label in zip(metrics, scores, of_seeds, strict=True):
                    by_task[task] = auc_by_class(score[label == 1], score[label == 0])
        return metrics

    def scores(self, split: str) -> dict[str, np.ndarray]:
        """Returns the probabilities `(seeds, requests, candidates)` of a split by task."""
        logits = np.asarray(self._scores(self.state, self._splits[split]["inputs"]))
        probabilities = (1 / (1 + np.exp(-logits.astype("float64")))).astype("float32")
        tasks = [task.name for task in self._schema.tasks]
        return {task: probabilities[..., place] for place, task in enumerate(tasks)}

    def model_of(self, place: int) -> RankingModel:
        """Returns the model with the weights of a seed."""
        for variable, values in zip(
            self._model.trainable_variables, self.state.trained, strict=True
        ):
            variable.assign(values[place])
        return self._model

    def _rows(self, arrays: Arrays, split: str) -> dict[str, Any]:
        features = [feature.name for feature in self._schema.features]
        labels = [arrays[names.of_label(split, task.name)] for task in self._schema.tasks]
        if labels[0].shape[-1] > 1:
            features.append(CANDIDATE_MASK)
        share = self._run.get("share", 1.0) if split == "train" else 1.0
        rows = slice(None) if share == 1 else arrays[names.DRAWS] < share
        inputs = {name: _on_device(arrays[names.of_input(split, name)][rows]) for name in features}
        return {"inputs": inputs, "labels": _on_device(np.stack(labels, axis=-1)[rows])}

    def _start(self, seed: int) -> State:
        """The values of a seed; every seed builds the same model anew."""
        keras.utils.set_random_seed(seed)
        arguments, options = dict(self._run["model"]), self._options
        is_dense, l2 = options["optimizer"] == "adam", options["embeddings_l2"]
        build = models.get(arguments.pop("name"))
        self._model: RankingModel = models.with_tables(
            build(self._schema, **arguments),
            stddev=options["embeddings_stddev"],
            l2=l2 if is_dense else None,
        )
        if (encoder := self._run.get("encoder")) is not None:
            place = seed - self._run["seed"]
            self._model = started(self._model, encoder, self._arrays, place)
        rate, clip = options["learning_rate"], options["clip_norm"]
        if is_dense:
            self._optimizer: Any = keras.optimizers.Adam(rate, global_clipnorm=clip)
        else:
            parts = LazyAdam(rate), keras.optimizers.Adam(rate)
            self._optimizer = Split(*parts, global_clipnorm=clip)
            self._l2 = _ROW_L2 if l2 is None else l2
        variables = self._model.trainable_variables
        self._optimizer.build(variables)
        self._rate_places = [
            place for place, v in enumerate(self._optimizer.variables) if v.name == "learning_rate"
        ]
        slots = [v.value for v in self._optimizer.variables]
        lookups = [jnp.zeros(v.shape[0]) for v in self._tables()] if self._l2 else []
        fixed = [v.value for v in self._model.non_trainable_variables]
        return State([v.value for v in variables], fixed, [*slots, *lookups])

    def _tables(self) -> list[keras.Variable]:
        return [v for v in self._model.trainable_variables if LazyAdam().is_table(v)]

    def _train(
        self, state: State, key: jax.Array, rate: jax.Array, rows: dict[str, Any]
    ) -> tuple[State, jax.Array]:
        """One epoch of one seed."""
        count, size = len(rows["labels"]), min(self._options["batch_size"], len(rows["labels"]))
        order = jax.random.permutation(key, count)
        order = jnp.concatenate([order, order[: -count % size]]).reshape(-1, size)
        slots = list(state.slots)
        for place in self._rate_places:
            slots[place] = self._options["learning_rate"] * rate

        def step(state: State, batch: jax.Array) -> tuple[State, jax.Array]:
            of_batch = jax.tree.map(lambda x: x[batch], rows)
            of_loss = jax.value_and_grad(self._loss, has_aux=True)
            (loss, fixed), gradients = of_loss(state.trained, state.fixed, of_batch)
            trained, slots = self._updated(state, gradients, of_batch["inputs"])
            return State(trained, fixed, slots), loss

        state, losses = jax.lax.scan(step, state._replace(slots=slots), order)
        return state, losses.mean()

    def _loss(
        self, trained: list[jax.Array], fixed: list[jax.Array], rows: dict[str, Any]
    ) -> tuple[jax.Array, list[jax.Array]]:
        logits, fixed, penalties = self._model.stateless_call(
            trained, fixed, rows["inputs"], training=True, return_losses=True
        )
        loss = jnp.sum(jnp.asarray(penalties)) if penalties else jnp.zeros(())
        for place, task in enumerate(self._schema.tasks):
            label = rows["labels"][..., place]
            known = ~jnp.isnan(label)
            label, kind = jnp.where(known, label, 0.0), task_loss(task.loss)
            total = jnp.maximum(kind.counts(label, known).sum(), 1.0)
            loss += task.weight * kind.of_requests(label, logits[task.name], known).sum() / total
        return loss, fixed

    def _updated(
        self, state: State, gradients: list[jax.Array], inputs: dict[str, jax.Array]
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        """The weights and the slots after a step."""
        if not self._l2:
            return self._applied(state.slots, gradients, state.trained)
        tables = self._tables()
        slots, lookups = state.slots[: -len(tables)], state.slots[-len(tables) :]
        added = self._lookups(inputs)
        places = {id(v): place for place, v in enumerate(tables)}
        with_l2, lookups = [], list(lookups)
        for v, gradient, value in zip(
            self._model.trainable_variables, gradients, state.trained, strict=True
        ):
            if (place := places.get(id(v))) is not None:
                is_touched = jnp.any(gradient != 0, axis=1)
                lookups[place] += jnp.where(is_touched, added[place], 0.0)
                counts = jnp.maximum(lookups[place], 1.0)[:, None]
                gradient += jnp.where(is_touched[:, None], self._l2 * value / counts, 0.0)
            with_l2.append(gradient)
        trained, slots = self._applied(slots, with_l2, state.trained)
        return trained, [*slots, *lookups]

    def _applied(self, slots: Any, gradients: Any, trained: Any) -> tuple[list[Any], list[Any]]:
        trained, slots = self._optimizer.stateless_apply(slots, gradients, trained)
        return list(trained), list(slots)

    def _lookups(self, inputs: dict[str, jax.Array]) -> list[jax.Array]:
        """How often a batch looks up each row of each table."""
        planned = {t.name: t for t in plan_tables(self._schema, self._model.embedding.width)}
        lookups = []
        for v in self._tables():
            counts = jnp.zeros(v.shape[0])
            for name, offset in planned[v.name].offsets.items():
                counts = counts.at[inputs[name].reshape(-1) + offset].add(1.0)
            lookups.append(counts)
        return lookups

    def _score(self, state: State, inputs: dict[str, jax.Array]) -> jax.Array:
        """Logits `(requests, candidates, tasks)`."""
        count = len(next(iter(inputs.values())))
        candidates = inputs[CANDIDATE_MASK].shape[1] if CANDIDATE_MASK in inputs else 1
        size = max(1, _ROWS // candidates)
        chunks = -(-count // size)

        def score(part: dict[str, jax.Array]) -> jax.Array:
            logits, _ = self._model.stateless_call(state.trained, state.fixed, part, training=False)
            return jnp.stack([logits[task.name] for task in self._schema.tasks], axis=-1)

        parts = {
            name: jnp.pad(x, ((0, chunks * size - count), *[(0, 0)] * (x.ndim - 1))).reshape(
                chunks, size, *x.shape[1:]
            )
            for name, x in inputs.items()
        }
        logits = jax.lax.map(score, parts)
        return logits.reshape(-1, *logits.shape[2:])[:count]


def _on_device(x: np.ndarray) -> jax.Array:
    return jnp.asarray(x, "int32" if np.issubdtype(x.dtype, np.integer) else "float32")
