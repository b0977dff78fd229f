"""`RankingModel`: an embedding and a tower."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.embeddings import FeatureEmbedding, example_inputs
from recsys_attn.layer import layers_in
from recsys_attn.models.encoded_history import Encoded
from recsys_attn.schema import Schema
from recsys_attn.serialization import deserialize, serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class RankingModel(keras.Model):
    """Scores T candidates of each of B requests for every task: `tower(embedding(inputs))`.

    The constructor builds the model, since the schema has every shape.

    Args:
        embedding: A `FeatureEmbedding`.
        tower: A layer from the output of the embedding to a dict of logits by task.

    Call arguments:
        inputs: Dict of ids and numbers by feature name; see `FeatureEmbedding`.

    Returns:
        Dict by task name of logits `(B, T)`. `probabilities(inputs)` returns their calibrated
        sigmoid, and `explain(inputs)` also the attention weights.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import mlp
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> schema = Schema((Categorical("item", size=7),), (Task("click"),))
    >>> logits = mlp(schema, units=(8,))({"item": np.array([[2, 3, 4]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """

    def __init__(self, embedding: FeatureEmbedding, tower: keras.layers.Layer, **kwargs: Any):
        if not embedding.schema.tasks:
            raise ValueError("`schema` must have at least one task. Received: tasks=()")
        super().__init__(autocast=False, **kwargs)  # so that numbers are not rounded before the
        # embedding
        self.embedding = embedding
        self.tower = tower
        self._calibration = self.add_weight(
            shape=(len(self.schema.tasks), 2),
            initializer="zeros",
            trainable=False,
            name="calibration",
        )  # logarithm of the slope, and offset; zeros change nothing
        self(example_inputs(self.schema, batch=2, candidates=3))
        for layer in layers_in(tower):
            for part in () if layer.trainable else layers_in(layer):
                part.trainable = False  # configs say so of the parts that were given alone

    @property
    def schema(self) -> Schema:
        """The fitted schema of the model."""
        return self.embedding.schema

    def build(self, input_shape: Shape | None = None) -> None:
        self.built = True  # the constructor builds the parts by a call

    def call(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        # Keras' `fit` sets training mode only for a `call` with this argument.
        return self.tower(self.embedding(inputs), training=training)

    def probabilities(
        self, inputs: Mapping[str, Tensor], encoded: Mapping[str, Encoded] | None = None
    ) -> dict[str, Tensor]:
        """Returns probabilities `(B, T)` by task name, in float32.

        `p = sigmoid(slope * logit + offset)` with the numbers of `calibrate`; along the chain of
        `esmm` at most that of the task before.

        Args:
            inputs: The inputs of a call.
            encoded: The result of `encode`, in place of the events of these histories, which
                `inputs` then leaves out. Defaults to none.
        """
        if encoded is None:
            return self._probabilities(self(inputs, training=False))
        embedded = self.embed(inputs)
        for name, events in encoded.items():
            embedded["histories"][name] |= {"encoded": events, "event_mask": events.present}
        return self._probabilities(self.tower(embedded, training=False))

    def encode(self, inputs: Mapping[str, Tensor]) -> dict[str, Encoded]:
        """Returns the encoded events of each history with an encoder, the same for any candidates.

        Args:
            inputs: The sequences of these histories, and the context that their encoders read; the
                other inputs of a call may be left out.

        Example:

        >>> import numpy as np
        >>> from recsys_attn.models import din
        >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
        >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
        >>> model = din(Schema((item, seen), (Task("click"),)), width=4, encoder={"name": "gru"})
        >>> encoded = model.encode({"seen": np.array([[5, 6, 0, 0, 0]])})
        >>> tuple(model.probabilities({"item": np.array([[2, 3, 4]])}, encoded)["click"].shape)
        (1, 3)
        """
        encoded: dict[str, Encoded] = self.tower.encode(self.embed(inputs))
        return encoded

    def embed(self, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
        """Returns the output of the embedding, with missing values for inputs that are left out."""
        batch = ops.shape(next(iter(inputs.values())))[0]
        missing = {
            name: ops.zeros((batch, *(1 for _ in value.shape[1:])), "int32")
            for name, value in example_inputs(self.schema).items()
            if name not in inputs
        }
        embedded: dict[str, Any] = self.embedding({**missing, **inputs})
        return embedded

    def calibrate(self, by_task: Mapping[str, tuple[float, float]]) -> None:
        """Sets how logits become probabilities; the training does not see it.

        Args:
            by_task: Slope and offset by task name; the slope is positive, so that the order of
                candidates stays, except where `esmm` caps scores. Tasks that are left out get 1 and
                0.

        Raises:
            ValueError: A task is unknown, or a slope is not positive.

        Source: Platt (1999), "Probabilistic outputs for support vector machines".

        Example:

        >>> import numpy as np
        >>> from recsys_attn.models import mlp
        >>> from recsys_attn.schema import Categorical, Schema, Task
        >>> model = mlp(Schema((Categorical("item", size=7),), (Task("click"),)), units=(8,))
        >>> model.calibrate({"click": (1.0, -1.0)})
        >>> round(float(model.probabilities({"item": np.zeros((1, 1), int)})["click"][0, 0]), 4)
        0.2689
        """
        names = [task.name for task in self.schema.tasks]
        for task, (slope, _) in by_task.items():
            if task not in names or not slope > 0:
                raise ValueError(
                    f"`by_task` must have a positive slope for tasks of {names}. "
                    f"Received: {dict(by_task)}"
                )
        pairs = [by_task.get(name, (1.0, 0.0)) for name in names]
        self._calibration.assign([[math.log(slope), offset] for slope, offset in pairs])

    def calibration(self) -> dict[str, tuple[float, float]]:
        """Returns the numbers of `calibrate`, for all tasks."""
        names = [task.name for task in self.schema.tasks]
        pairs = ops.convert_to_numpy(self._calibration).astype("float64")
        return {
            n: (math.exp(slope), offset) for n, (slope, offset) in zip(names, pairs, strict=True)
        }

    def _probabilities(self, logits: Mapping[str, Tensor]) -> dict[str, Tensor]:
        names, probabilities = [task.name for task in self.schema.tasks], {}
        for name, logit in logits.items():
            slope, offset = ops.unstack(self._calibration[names.index(name)])
            probabilities[name] = ops.sigmoid(ops.cast(logit, "float32") * ops.exp(slope) + offset)
        if getattr(self.tower, "falls", False):
            for before, task in itertools.pairwise(names):  # calibrated each by itself
                probabilities[task] = ops.minimum(probabilities[task], probabilities[before])
        return probabilities

    @property
    def unread(self) -> tuple[str, ...]:
        """Names of the features that change no score; empty for a tower of another class."""
        unread = getattr(self.tower, "unread", None)
        return () if unread is None else unread(self.schema)

    @property
    def same_rows(self) -> bool:
        """Whether all tasks must have labels in the same rows, as in `esmm`."""
        return getattr(getattr(self.tower, "head", None), "same_rows", False)

    @property
    def explanations(self) -> tuple[str, ...]:
        """Names of the explanations of `explain`; empty for some models."""
        names = getattr(self.tower, "explanations", ())
        if "fields" not in names:
            return names
        return (*names[: names.index("fields")], *(f"field/{name}" for name in self._field_names))

    @functools.cached_property
    def _field_names(self) -> tuple[str, ...]:
        names: tuple[str, ...] = self.tower.field_names(self.embedding)
        return names

    def explain(self, inputs: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Returns probabilities and their explanations, from one pass through the model.

        - `attention/<history>` `(B, T, S)`: the weight of each event in the target attention of
        each candidate, in the order of the model's input; the mean over heads. Padding has weight
        0. Weights of a softmax sum to 1 (to 0 for an empty history); DIN's are not normalised, may
        be negative, and can only be compared with each other. After an encoder, an event also
        contains its neighbours. An event that a fast mechanism does not look at has weight 0. A
        history that is averaged, or whose mechanism makes no weights (`Linear`), has none.
        - `attention/<history>.sessions` `(B, T, S)`: the weight of each event's session, where
        sessions are weighted too (`han`); `attention/<history>` is then the product with the weight
        in the session.
        - `gate/<task>` `(B, T, experts)`: the share of each expert in the input of the task; in
        `aitm` `(B, T, 2)`, those of what the task before passes on and of the task's own tower.
        - `field/<feature>` `(B, T)`, and for the fields of a history `field/<history>.<sequence>`:
        the weight that a field receives in an interaction by attention (AutoInt's layers, DESTINE,
        AFM), the mean over layers, heads and attending fields that are not missing. AFM's pairs
        give each of their fields half. With a softmax the weights of all fields sum to 1. Where
        fields are multiplied by factors (FiBiNET, FinalMLP's gates, PEPNet's domain) it is the mean
        factor of the channels and of the gates. They tell what the layers look at; what a feature
        is worth is the evaluation's importance.

        Args:
            inputs: The inputs of a call.

        Returns:
            The result of `probabilities`, and a dict by the names of `explanations`, in float32.

        Example:

        >>> import numpy as np
        >>> from recsys_attn.models import din
        >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
        >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
        >>> model = din(Schema((item, seen), (Task("click"),)), width=4, mlp_units=(8,))
        >>> inputs = {"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6, 0, 0, 0]])}
        >>> probabilities, explanation = model.explain(inputs)
        >>> {name: tuple(weights.shape) for name, weights in explanation.items()}
        {'attention/history': (1, 3, 5)}
        """
        if not self.explanations:
            return self.probabilities(inputs), {}
        logits, explanation = self.tower(self.embedding(inputs), training=False, explain=True)
        if "fields" in explanation:
            fields = ops.unstack(explanation.pop("fields"), num=len(self._field_names), axis=-1)
            named = zip(self._field_names, fields, strict=True)
            explanation |= {f"field/{name}": weight for name, weight in named}
        return self._probabilities(logits), explanation

    def get_config(self) -> Config:
        return {
            "name": self.name,
            "embedding": serialize(self.embedding),
            "tower": serialize(self.tower),
        }

    @classmethod
    def from_config(cls, config: Config, custom_objects: Any = None) -> RankingModel:
        parts: dict[str, Any] = {key: deserialize(config[key]) for key in ("embedding", "tower")}
        return cls(**{**config, **parts})
