"""A penalty on similar heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.normalise import unit
from recsys_attn.checks import require_number, unknown_name
from recsys_attn.layer import Layer
from recsys_attn.masked_mean import mean_where
from recsys_attn.serialization import deserialize
from recsys_attn.tensors import Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Disagreement(Layer):
    """Adds the similarity of the heads to the loss, in training only.

    `loss += subspace * mean_ij cos(v_i, v_j)`, for the values v of heads i and j at each key

    `loss += positions * mean_ij (a_i . a_j)`, for the weights a of each query

    `loss += outputs * mean_ij cos(o_i, o_j)`, for the outputs o at each query

    each averaged over the positions that are not masked. The paper maximises the negative of these
    similarities. Pairs i = j count too: for cosines a constant 1 / N, for weights a penalty on
    peaked weights. The similarity of a zero vector is 0, without gradient.

    A layer called twice adds to the loss twice; on JAX, Keras keeps the last one only.

    Source: Li et al., "Multi-Head Attention with Disagreement Regularization", EMNLP 2018,
    arXiv 1810.10183; the paper leaves open how positions are averaged.

    Args:
        subspace: Factor of the similarity of the values. Defaults to 0.
        positions: Factor of the similarity of the weights before dropout. Defaults to 0; it needs
            the mechanism `Dense`.
        outputs: Factor of the similarity of the outputs of the heads. Defaults to 0.

    Call arguments:
        value: (B, S, N, V); B may be 1.
        weights: (B, N, T, S), or None if the mechanism makes none.
        output: (B, T, N, V).
        query_mask: (B, T), False for queries that do not count.
        key_mask: (B, S), False for keys that do not count.

    Returns:
        The output, unchanged.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Dense
    >>> from recsys_attn.attention.disagreement import Disagreement
    >>> query = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> output, weights = Dense()(query, history, history)
    >>> penalty = Disagreement(outputs=1.0)
    >>> output = penalty(history, weights, output, training=True)
    >>> len(penalty.losses)
    1
    """

    adds_losses = True

    def __init__(
        self,
        subspace: float = 0.0,
        positions: float = 0.0,
        outputs: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.built = True  # it has no weights
        for name, factor in (
            ("subspace", subspace),
            ("positions", positions),
            ("outputs", outputs),
        ):
            # A negative factor would make the heads more similar.
            require_number(name, factor, least=0)
        self.subspace = subspace
        self.positions = positions
        self.outputs = outputs

    def call(
        self,
        value: Tensor,
        weights: Tensor | None,
        output: Tensor,
        query_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        if self.positions and weights is None:
            raise ValueError(
                "`positions` compares the weights of the heads, and this mechanism makes none; "
                f"use the mechanism Dense, or positions=0. Received: positions={self.positions}"
            )
        if training:
            if self.subspace:
                self.add_loss(self.subspace * mean_where(_cosines(value), key_mask))
            if self.positions:
                self.add_loss(self.positions * mean_where(_overlaps(weights), query_mask))
            if self.outputs:
                self.add_loss(self.outputs * mean_where(_cosines(output), query_mask))
        return output


def get_disagreement(disagreement: Any) -> Disagreement | None:
    """Returns a penalty for an instance, a config, or factors by name; None for None.

    Raises:
        TypeError: `disagreement` is none of these.
        ValueError: The name of a factor is unknown, or a factor is negative.

    >>> get_disagreement({"outputs": 0.1}).get_config()["outputs"]
    0.1
    """
    if isinstance(disagreement, Mapping) and "registered_name" in disagreement:
        disagreement = deserialize(disagreement)
    if isinstance(disagreement, Mapping):
        names = ("subspace", "positions", "outputs")
        for name in disagreement.keys() - set(names):
            raise ValueError(
                "`disagreement` must be a table of the weights `subspace`, `positions` and "
                f"`outputs`. {unknown_name(name, names)}"
            )
        return Disagreement(**disagreement)
    if disagreement is None or isinstance(disagreement, Disagreement):
        return disagreement
    raise TypeError(
        "`disagreement` must be a layer such as Disagreement(outputs=0.1), its weights, such as "
        f"{{'outputs': 0.1}}, or its config. Received: {disagreement!r}"
    )


def _cosines(x: Tensor) -> Tensor:
    """(B, T, N, V) -> (B, T), the mean cosine of two heads; for all pairs at once

    `mean_ij u_i . u_j = |mean_i u_i|^2`, for vectors u of length one.
    """
    return ops.sum(ops.square(ops.mean(unit(x), axis=2)), axis=-1)


def _overlaps(weights: Tensor) -> Tensor:
    """(B, N, T, S) -> (B, T), the mean product of the weights of two heads, in the same way."""
    mean = ops.mean(ops.cast(weights, "float32"), axis=1)
    return ops.sum(ops.square(mean), axis=-1)
