"""Factorised Synthesizer scores, with fewer weights."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import batched_matmul, head_sizes, per_head
from recsys_attn.attention.scores.base import SCORES, Score
from recsys_attn.attention.scores.position_tables import (
    known_length,
    places_within,
    read_last,
    spread,
)
from recsys_attn.backend.head_tables import read
from recsys_attn.checks import require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@SCORES.register("factorised_dense_synthesizer")
class FactorisedDenseSynthesizer(Score):
    """`score = A[j mod a] B[j div a]` for a key at j, `A = W_A q + b_A` and `B = W_B q + b_B`.

    A has a entries and B has b, with `a b = length`. A is repeated as a whole b times, and each
    entry of B a times, so that every position has a different pair.

    Source: Tay et al., "Synthesizer: Rethinking Self-Attention in Transformer Models", ICML 2021,
    arXiv 2005.00743.

    Args:
        length: Largest number of keys. Defaults to the number of keys in `build`.
        factor: a, a divisor of the length. Defaults to the largest one up to its square root.

    Call arguments:
        query, key, allowed: See `Score`.
        query_positions: Not used.
        key_positions: Integers that broadcast to (B, N, S). A position outside of
            0 ... length - 1 reads the nearest end.

    Returns:
        Logits (B, N, T, S).

    Raises:
        ValueError: There are more keys than `length`, or `factor` does not divide it.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import FactorisedDenseSynthesizer
    >>> query = keras.random.normal((2, 3, 1, 8))
    >>> key = keras.random.normal((2, 5, 1, 4))
    >>> tuple(FactorisedDenseSynthesizer(length=12, factor=4)(query, key).shape)
    (2, 1, 3, 5)
    """

    positional = True
    uses_key = False

    def __init__(self, length: int | None = None, factor: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name, value in (("length", length), ("factor", factor)):
            if value is not None:
                require_positive(name, value)
        self.length = length
        self.factor = factor
        if length is not None:
            self._divided(length)

    def _divided(self, length: int) -> tuple[int, int]:
        """The numbers a and b."""
        factor = self.factor
        if factor is None:
            factor = max(a for a in range(1, int(length**0.5) + 1) if length % a == 0)
        if length % factor:
            raise ValueError(
                "`factor` must divide the length without remainder; choose another, or a longer "
                f"length. Received: factor={factor}, length={length}"
            )
        return factor, length // factor

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, query_size, _ = head_sizes(query_shape, key_shape)
        first, second = self._divided(known_length(self.length, key_shape))

        def weights(letter: str, entries: int) -> tuple[Tensor, Tensor]:
            kernel = self.add_weight(
                shape=(heads, query_size, entries),
                initializer=blockwise(heads, axis=0),
                name=f"{letter}_kernel",
            )
            bias = self.add_weight(
                shape=(heads, 1, entries), initializer="zeros", name=f"{letter}_bias"
            )
            return kernel, bias

        self.first_kernel, self.first_bias = weights("first", first)
        self.second_kernel, self.second_bias = weights("second", second)

    @property
    def most_keys(self) -> int:
        return self.first_bias.shape[-1] * self.second_bias.shape[-1]

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        _, columns = places_within(self.most_keys, query, key, query_positions, key_positions)
        first = per_head(query, self.first_kernel) + self.first_bias  # (B, N, T, a)
        second = per_head(query, self.second_kernel) + self.second_bias
        products = second[..., :, None] * first[..., None, :]  # (B, N, T, b, a)
        products = ops.reshape(products, (*ops.shape(first)[:3], self.most_keys))
        return spread(read_last(products, columns[:, :, None]), query, key)


@SCORES.register("factorised_random_synthesizer")
class FactorisedRandomSynthesizer(Score):
    """`score = (R_1 R_2^T)[i, j]` for a query at i and a key at j, with R_1 and R_2 for each head.

    Source: Tay et al., "Synthesizer: Rethinking Self-Attention in Transformer Models", ICML 2021,
    arXiv 2005.00743.

    Args:
        length: Number of rows L of R_1 and R_2 (L, rank), the largest number of keys. Defaults to
            the number of keys in `build`.
        rank: Number of columns of R_1 and R_2; raise it for more patterns of weights.

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
    >>> from recsys_attn.attention.scores import FactorisedRandomSynthesizer
    >>> history = keras.random.normal((2, 5, 1, 8))
    >>> tuple(FactorisedRandomSynthesizer(length=50)(history, history).shape)
    (2, 1, 5, 5)
    """

    positional = True
    uses_query = False
    uses_key = False

    def __init__(self, length: int | None = None, rank: int = 8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if length is not None:
            require_positive("length", length)
        require_positive("rank", rank)
        self.length = length
        self.rank = rank

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        heads, _, _ = head_sizes(query_shape, key_shape)
        shape = (heads, known_length(self.length, key_shape), self.rank)
        drawn = blockwise(heads, axis=0)
        self.rows = self.add_weight(shape=shape, initializer=drawn, name="rows")
        self.columns = self.add_weight(shape=shape, initializer=drawn, name="columns")

    @property
    def most_keys(self) -> int:
        return self.rows.shape[1]

    def call(
        self,
        query: Tensor,
        key: Tensor,
        allowed: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        rows, columns = places_within(self.most_keys, query, key, query_positions, key_positions)
        of_keys = ops.swapaxes(read(self.columns, columns), 2, 3)  # (B or 1, N, rank, S)
        return spread(batched_matmul(read(self.rows, rows), of_keys), query, key)
