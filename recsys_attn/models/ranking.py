"""`RankingModel`: embed, then tower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.embeddings import FeatureEmbedding, example_inputs
from recsys_attn.schema import Schema
from recsys_attn.serialization import deserialize, serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class RankingModel(keras.Model):
    """Scores T candidates of each of B requests for every task: `tower(embedding(inputs))`.

    The model is built when it is made, since the schema tells every shape.

    Args:
        embedding: A `FeatureEmbedding`.
        tower: A layer that maps what the embedding returns to a dict of logits by task.

    Call arguments:
        inputs: Dict of ids and numbers by feature name; see `FeatureEmbedding`.

    Returns:
        Dict by task name of logits `(B, T)`. `probabilities(inputs)` gives their sigmoid.

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
        super().__init__(autocast=False, **kwargs)  # so that numbers reach the embedding unrounded
        self.embedding = embedding
        self.tower = tower
        self(example_inputs(self.schema, batch=2, candidates=3))

    @property
    def schema(self) -> Schema:
        """The fitted schema that the model was made for."""
        return self.embedding.schema

    def build(self, input_shape: Shape | None = None) -> None:
        self.built = True  # the parts build themselves on the first call, in the constructor

    def call(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        # Keras' `fit` trains in training mode only what has the argument.
        return self.tower(self.embedding(inputs), training=training)

    def probabilities(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Dict by task name of probabilities `(B, T)`, in float32."""
        return {
            task: ops.sigmoid(ops.cast(logits, "float32"))
            for task, logits in self(inputs, training=False).items()
        }

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
