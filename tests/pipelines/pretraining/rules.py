"""Histories in which a rule is planted, and a short training on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pipelines.pretraining.sequence_step import trained_variables
from recsys_attn.id_transforms import Age
from recsys_attn.models import SequenceModel, get_sequence_model
from recsys_attn.objectives import OBJECTIVES, Objective
from recsys_attn.schema import Schema
from recsys_attn.schema import Sequence as Events

Array = np.ndarray
Arrays = dict[str, Array]
USERS, TESTED = 499, 211


def model_of(name: str, inputs: Arrays, **options: Any) -> SequenceModel:
    """Builds a small sequence model with the inputs that are given: items, times, actions."""
    keras.utils.set_random_seed(3)
    size, length = int(inputs["item"].max()) + 1, inputs["item"].shape[1]
    sequences = [Events("item", size=size, max_length=length)]
    if "age" in inputs:
        sequences.append(Events("age", dtype="float32", transform=Age(), max_length=length))
    if "action" in inputs:
        actions = int(inputs["action"].max()) + 1
        sequences.append(Events("action", size=actions, max_length=length))
    small = {"width": 16, "num_layers": 1, "dropout": 0.0}
    return get_sequence_model(name)(Schema(tuple(sequences), ()), **{**small, **options})


def objectives_of(model: SequenceModel, inputs: Arrays, **named: dict[str, Any]) -> list[Objective]:
    """Objectives by name with their options, ready for the model."""
    sizes = {name: int(x.max()) + 1 for name, x in inputs.items()}
    made = [OBJECTIVES[name](**options) for name, options in named.items()]
    for objective in made:
        objective.require_fit(model)
        objective.prepare(model, sizes)
    return made


def train(
    model: SequenceModel, objectives: Sequence[Objective], inputs: Arrays, steps: int = 150
) -> None:
    """Takes steps on drawn histories."""
    variables = trained_variables(model, objectives)
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(variables)
    rng = np.random.default_rng(7)

    @tf.function(autograph=False)
    def step(batch: dict[str, tf.Tensor]) -> None:
        with tf.GradientTape() as tape:
            found = [objective(model, batch) for objective in objectives]
            pairs = zip(objectives, found, strict=True)
            loss = tf.add_n([o.weight * x.total / tf.maximum(x.count, 1.0) for o, x in pairs])
        gradients = tape.gradient(loss, variables)
        used = [pair for pair in zip(gradients, variables, strict=True) if pair[0] is not None]
        optimizer.apply(*map(list, zip(*used, strict=True)))

    for _ in range(steps):
        rows = rng.integers(0, len(inputs["item"]), 64)
        step({name: tf.constant(x[rows], "int32") for name, x in inputs.items()})


def losses(model: SequenceModel, objectives: Sequence[Objective], inputs: Arrays) -> list[float]:
    """The mean loss of each objective."""
    found = [objective(model, inputs) for objective in objectives]
    return [float(loss.total / loss.count) for loss in found]


def next_states(model: SequenceModel, inputs: Arrays) -> Array:
    """The states `(B, K)` that predict what follows."""
    states: Array = keras.ops.convert_to_numpy(model.next_states(inputs))
    return states


def best(model: SequenceModel, inputs: Arrays, places: int = 1) -> Array:
    """The best items `(B, places)` after the events without the last one."""
    before = {name: x[:, :-1] for name, x in inputs.items()}
    scores = np.array(model.scores(model.next_states(before)))[:, 2:]
    return np.argsort(-scores, axis=1)[:, :places] + 2


def hits(model: SequenceModel, inputs: Arrays, places: int = 1) -> float:
    """The share of histories whose last item is among the best."""
    return float((best(model, inputs, places) == inputs["item"][:, -1:]).any(axis=1).mean())
