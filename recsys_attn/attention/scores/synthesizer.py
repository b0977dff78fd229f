"""Synthesizer scores: logits that do not depend on the keys."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes, per_head, swap_heads
from recsys_attn.attention.core.places import pairs
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import (
    known_length,
    places_within,
    project_at,
    spread,
)
from recsys_attn.backend.head_tables import read
from recsys_attn.checks import require_bool, require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("dense_synthesizer")
class DenseSynthesizer(Score):
    """`score = (W_2 relu(W_1 q + b_1) + b_2)[j]` for a key at j, with weights for each head.

    Source: Tay et al., "Synthesizer: Rethinking Self-Attention in Transformer Models", ICML 2021,
    arXiv 2005.00743.

    Args:
        length: Largest number of keys. Defaults to the number of keys in `build`.
        units: Size of the hidden layer. Defaults to the size of the query.

    Call arguments:
        query, key, allowed: See `Score`.
        query_positions: Not used.
        key_positions: Integers that broadcast to (B, N, S). A position outside of
            0 ... length - 1 reads the nearest end.

    Returns:
        Logits (B, N, T, S).

    Raises:
        ValueError: There are more keys than `length`.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import DenseSynthesizer
    >>> fields = keras.random.normal((2, 5, 1, 8))
    >>> tuple(DenseSynthesizer()(fields, fields).shape)
    (2, 1, 5, 5)
    """

    positional = True
    uses_key = False

    def __init__(self, length: int | None = None, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name, value in (("length", length), ("units", units)):
            if value is not None:
                require_positive(name, value)
        self.length = length
        self.units = units

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, query_size, _ = head_sizes(query_shape, key_shape)
        units = self.units or query_size
        length = known_length(self.length, key_shape)
        drawn = blockwise(heads, axis=0)
        self.hidden_kernel = self.add_weight(
            shape=(heads, query_size, units), initializer=drawn, name="hidden_kernel"
        )
        self.hidden_bias = self.add_weight(
            shape=(heads, units), initializer="zeros", name="hidden_bias"
        )
        self.kernel = self.add_weight(
            shape=(heads, units, length), initializer=drawn, name="kernel"
        )
        self.bias = self.add_weight(shape=(heads, length), initializer="zeros", name="bias")

    @property
    def most_keys(self) -> int:
        return self.bias.shape[-1]

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        _, columns = places_within(self.most_keys, query, key, query_positions, key_positions)
        hidden = ops.relu(per_head(query, self.hidden_kernel) + self.hidden_bias[:, None])
        logits = project_at(swap_heads(hidden), self.kernel, self.bias, columns)
        return spread(logits, query, key)


@SCORES.register("random_synthesizer")
class RandomSynthesizer(Score):
    """`score = R[i, j]` for a query at i and a key at j: one table per head, for all inputs.

    Over fields, of fixed number and order, it is a learned matrix of field interactions.

    Source: Tay et al., "Synthesizer: Rethinking Self-Attention in Transformer Models", ICML 2021,
    arXiv 2005.00743.

    Args:
        length: Size L of the table (L, L), the largest number of keys. Defaults to the number of
            keys in `build`.
        trainable: Whether the table is learned. Defaults to True; False is "fixed random" in the
            paper.

    Call arguments:
        query, key, allowed: See `Score`.
        query_positions, key_positions: Integers that broadcast to (B, N, T) and (B, N, S). A
            position outside of 0 ... length - 1 reads the nearest end.

    Returns:
        Logits (B, N, T, S).

    Raises:
        ValueError: There are more keys than `length`.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import RandomSynthesizer
    >>> fields = keras.random.normal((2, 5, 1, 8))
    >>> tuple(RandomSynthesizer()(fields, fields).shape)
    (2, 1, 5, 5)
    """

    positional = True
    uses_query = False
    uses_key = False

    def __init__(self, length: int | None = None, trainable: bool = True, **kwargs: Any) -> None:
        require_bool("trainable", trainable)
        super().__init__(trainable=trainable, **kwargs)
        if length is not None:
            require_positive("length", length)
        self.length = length

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, _, _ = head_sizes(query_shape, key_shape)
        length = known_length(self.length, key_shape)
        self.table = self.add_weight(
            shape=(heads, length, length), initializer=blockwise(heads, axis=0), name="table"
        )

    @property
    def most_keys(self) -> int:
        return self.table.shape[-1]

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        heads, length, _ = self.table.shape
        rows, columns = pairs(*places_within(length, query, key, query_positions, key_positions))
        flat = ops.reshape(self.table, (heads, length * length))
        return spread(read(flat, rows * length + columns), query, key)
