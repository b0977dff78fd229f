"""Several trained models as one: the weighted mean of their calibrated logits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import unknown_name
from recsys_attn.layer import Layer
from recsys_attn.models.ranking import RankingModel
from recsys_attn.schema import Schema
from recsys_attn.serialization import deserialize, serialize
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class EnsembleEmbedding(Layer):
    """The embeddings of several models, side by side.

    Args:
        schema: The features of all of them, and the tasks; or its `to_dict()`.
        embeddings: The embeddings.

    Call arguments:
        inputs: Dict by feature name, as for `FeatureEmbedding`.

    Returns:
        The output of each embedding, in a list.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import ensemble, logistic_regression, mlp
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> schema = Schema((Categorical("item", size=7),), (Task("click"),))
    >>> model = ensemble(schema, [mlp(schema, units=(8,)), logistic_regression(schema)])
    >>> len(model.embedding({"item": np.array([[2, 3, 4]])}))
    2
    """

    def __init__(
        self, schema: Schema | Mapping[str, Any], embeddings: Sequence[Any], **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.schema = schema if isinstance(schema, Schema) else Schema.from_dict(schema)
        self.embeddings = [deserialize(embedding) for embedding in embeddings]

    def build(self, input_shape: Shape | None = None) -> None:
        self.built = True  # the parts are built by their first call

    def call(self, inputs: Mapping[str, Tensor]) -> list[dict[str, Any]]:
        return [embedding(inputs) for embedding in self.embeddings]


@keras.saving.register_keras_serializable(package="recsys_attn")
class EnsembleTower(Layer):
    """The towers of several models, and the sum of their logits.

    `z_t = offset_t + sum_m scale_tm z_tm` for each task t and model m.

    Args:
        towers: The towers.
        scales: By task, a number for each tower.
        offsets: By task, a number.

    Call arguments:
        embedded: The outputs of the embeddings, in a list.

    Returns:
        Dict by task of logits `(B, T)`, in float32.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import ensemble, logistic_regression, mlp
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> schema = Schema((Categorical("item", size=7),), (Task("click"),))
    >>> model = ensemble(schema, [mlp(schema, units=(8,)), logistic_regression(schema)])
    >>> model.tower.scales
    {'click': [0.5, 0.5]}
    """

    def __init__(
        self,
        towers: Sequence[Any],
        scales: Mapping[str, Sequence[float]],
        offsets: Mapping[str, float],
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.towers = [deserialize(tower) for tower in towers]
        self.scales = {task: list(of_task) for task, of_task in scales.items()}
        self.offsets = dict(offsets)

    @property
    def falls(self) -> bool:
        """Whether in every model no probability is above that of the task before."""
        return all(getattr(tower, "falls", False) for tower in self.towers)

    def build(self, input_shape: Shape | None = None) -> None:
        self.built = True  # the parts are built by their first call

    def call(
        self, embedded: Sequence[Mapping[str, Any]], training: bool | None = None
    ) -> dict[str, Tensor]:
        logits = [
            tower(part, training=training)
            for tower, part in zip(self.towers, embedded, strict=True)
        ]
        return {
            task: self.offsets[task]
            + sum(
                scale * ops.cast(of_member[task], "float32")
                for scale, of_member in zip(scales, logits, strict=True)
            )
            for task, scales in self.scales.items()
        }


def ensemble(
    schema: Schema,
    members: Sequence[RankingModel],
    weights: Mapping[str, Sequence[float]] | None = None,
) -> RankingModel:
    """Returns one model for several: the weighted mean of their calibrated logits.

    `z_t = sum_m w_tm (slope_tm z_tm + offset_tm)` for each task t and member m, with the numbers
    of the member's `calibrate`. `calibrate` of the new model then acts on the mean. It explains
    nothing: the weights of events and experts are those of its members.

    Args:
        schema: A fitted schema with the features of all members, and the tasks, which all have.
        members: Trained models, of any kind. Their weights are copied.
        weights: By task a weight for each member: none is negative, and their sum is 1. Give a
            member more that is better on rows that no member was trained on. Defaults to equal
            weights.

    Raises:
        ValueError: There is no member, or one has other features, lacks a task, or weights are
            not as above.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import ensemble, logistic_regression, mlp
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> schema = Schema((Categorical("item", size=7),), (Task("click"),))
    >>> members = [mlp(schema, units=(8,)), logistic_regression(schema)]
    >>> model = ensemble(schema, members, {"click": (0.75, 0.25)})
    >>> tuple(model({"item": np.array([[2, 3, 4]])})["click"].shape)
    (1, 3)
    """
    _check_members(schema, members)
    if weights is None:
        weights = {task.name: [1 / len(members)] * len(members) for task in schema.tasks}
    _check_weights(schema, weights, len(members))
    numbers = [member.calibration() for member in members]
    scales, offsets = {}, {}
    for task, of_task in weights.items():
        pairs = [(w, *of_member[task]) for w, of_member in zip(of_task, numbers, strict=True)]
        scales[task] = [float(weight * slope) for weight, slope, _ in pairs]
        offsets[task] = float(sum(weight * offset for weight, _, offset in pairs))
    embeddings: Any = EnsembleEmbedding(schema, [serialize(m.embedding) for m in members])
    towers = EnsembleTower([serialize(m.tower) for m in members], scales, offsets)
    model = RankingModel(embeddings, towers, name="ensemble")
    parts = zip(embeddings.embeddings, towers.towers, members, strict=True)
    for embedding, tower, member in parts:
        embedding.set_weights(member.embedding.get_weights())
        tower.set_weights(member.tower.get_weights())
    return model


def _check_members(schema: Schema, members: Sequence[RankingModel]) -> None:
    if not members:
        raise ValueError("`members` must have at least one model. Received: members=()")
    here = _sizes(schema)  # widths may differ: some models have their own
    for number, member in enumerate(members):
        there = _sizes(member.schema)
        other = [name for name, size in there.items() if here.get(name, 0) != size]
        if other:
            raise ValueError(
                "`schema` must have the features of all members, fitted as theirs. "
                f"members[{number}] has others: {other}"
            )
        known = [task.name for task in member.schema.tasks]
        for task in schema.tasks:
            if task.name not in known:
                raise ValueError(
                    f"members[{number}] must have all tasks of `schema`. "
                    f"{unknown_name(task.name, known)}"
                )


def _sizes(schema: Schema) -> dict[str, int | None]:
    """Returns the rows of each feature's table, None for a number."""
    return {feature.name: getattr(feature, "size", None) for feature in schema.features}


def _check_weights(schema: Schema, weights: Mapping[str, Sequence[float]], members: int) -> None:
    tasks = [task.name for task in schema.tasks]
    is_right = sorted(weights) == sorted(tasks) and all(
        len(of_task) == members
        and all(weight >= 0 for weight in of_task)
        and math.isclose(sum(of_task), 1, abs_tol=1e-6)
        for of_task in weights.values()
    )
    if not is_right:
        raise ValueError(
            f"`weights` must have for each task of {tasks} {members} numbers from 0, one for each "
            f"member, with the sum 1. Received: {dict(weights)}"
        )
