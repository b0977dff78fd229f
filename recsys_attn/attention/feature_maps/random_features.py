"""The base class of maps with random features: drawing and saving the projection."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.feature_maps.base import FeatureMap
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.tensors import Shape, Tensor


class RandomFeatures(FeatureMap):
    """A feature map that projects on random vectors `w ~ N(0, I)`, the same for every head.

    The vectors are a non-trainable weight, so that a saved model keeps them. They may be redrawn in
    training, so that the model does not depend on the errors of one draw; a state of the recurrence
    is valid for its draw only.

    Source: Choromanski et al., "Rethinking Attention with Performers", ICLR 2021,
    arXiv 2009.14794.

    Attributes:
        regularized: Whether all orthogonal vectors have the length sqrt(H), and not the random
            length of a Gaussian vector.

    Args:
        features: Number of random vectors.
        orthogonal: Whether to make them orthogonal in groups of H, which reduces the error.
        redraw_every: Number of training steps between redraws. Defaults to None: never.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention.feature_maps import Favor
    >>> feature_map = Favor(features=16)
    >>> feature_map.build((None, None, 4, 8), (None, None, 4, 8))
    >>> before = keras.ops.convert_to_numpy(feature_map.projection)
    >>> feature_map.redraw()
    >>> bool(np.allclose(feature_map.projection, before))
    False
    """

    regularized: bool = False

    def __init__(
        self,
        features: int,
        *,
        orthogonal: bool = True,
        redraw_every: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("features", features)
        require_bool("orthogonal", orthogonal)
        if redraw_every is not None:
            require_positive("redraw_every", redraw_every)
        self.features = features
        self.orthogonal = orthogonal
        self.redraw_every = redraw_every
        self.seed_generator = keras.random.SeedGenerator()

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        super().build(query_shape, key_shape)
        # One draw for all replicas.
        options = {
            "trainable": False,
            "autocast": False,
            "dtype": "float32",
            "aggregation": "only_first_replica",
        }
        self.projection = self.add_weight(
            shape=(query_shape[-1], self.features),
            initializer=lambda shape, dtype: self._vectors(self._noise(shape[0])),
            name="projection",
            **options,
        )
        if self.redraw_every is not None:
            self.steps = self.add_weight(shape=(), initializer="zeros", name="steps", **options)

    def call(
        self,
        query: Tensor,
        key: Tensor,
        key_mask: Tensor | None = None,
        streaming: bool = False,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        if training and self.trainable and self.redraw_every is not None:
            self._count_step(self.redraw_every)
        return super().call(query, key, key_mask, streaming)

    def redraw(self) -> None:
        """Draws new random vectors."""
        self.projection.assign(self._vectors(self._noise(self.projection.shape[0])))

    def _count_step(self, redraw_every: int) -> None:
        due = self.steps + 1 >= redraw_every
        # Outside of the branch: it changes the state of the generator.
        noise = self._noise(self.projection.shape[0])
        projection = ops.convert_to_tensor(self.projection)
        self.projection.assign(ops.cond(due, lambda: self._vectors(noise), lambda: projection))
        self.steps.assign(ops.where(due, 0.0, self.steps + 1))

    def _noise(self, size: int) -> Tensor:
        """Gaussian numbers for the directions and the lengths: (2, groups, H, H)."""
        groups = -(-self.features // size)
        return keras.random.normal((2, groups, size, size), seed=self.seed_generator)

    def _vectors(self, noise: Tensor) -> Tensor:
        """The columns of (H, features)."""
        vectors, lengths = noise[0], noise[1]
        _, groups, size, _ = noise.shape
        if self.orthogonal:
            # Uniform over all rotations only if R has a positive diagonal (Mezzadri, "How to
            # generate random matrices from the classical compact groups", math-ph/0609050).
            rotations, triangles = ops.qr(vectors)
            diagonals = ops.diagonal(triangles, axis1=1, axis2=2)
            vectors = rotations * ops.sign(diagonals)[:, None]
            vectors *= size**0.5 if self.regularized else ops.norm(lengths, axis=1, keepdims=True)
        return ops.reshape(ops.swapaxes(vectors, 0, 1), (size, groups * size))[:, : self.features]
