"""Dense attention: every query with every key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from keras import ops

from recsys_attn.attention import patterns, scores, weightings
from recsys_attn.attention.core.head_layout import (
    batched_matmul,
    logits_shape,
    require_a_value_a_key,
    swap_heads,
)
from recsys_attn.attention.core.masks import MASK_ARGUMENTS, Masks, both, in_front
from recsys_attn.attention.core.places import length_of, pairs, resolve
from recsys_attn.attention.mechanisms.base import MECHANISMS, Mechanism
from recsys_attn.attention.mechanisms.context_keys import logits_with_context, require_no_places
from recsys_attn.attention.mechanisms.pair_values import PAIR_VALUES
from recsys_attn.attention.patterns.base import require_heads, require_steady
from recsys_attn.attention.scores.base import logits_of
from recsys_attn.attention.scores.position_tables import keys_within
from recsys_attn.attention.weightings.base import build_weighting, weights_of
from recsys_attn.attention.weightings.softmax import NEVER
from recsys_attn.backend.dropout import Dropout
from recsys_attn.checks import require_share
from recsys_attn.layer import build_part
from recsys_attn.tensors import Config, Shape, Tensor


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Callable[[Tensor, Tensor, Tensor | None], Tensor],
    weighting: Callable[[Tensor, Tensor | None], Tensor],
    allowed: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
    pair_values: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of each head: `weighting(score(query, key) + bias) value`.

    Args:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        score: From query, key and `allowed` to logits (B, N, T, S).
        weighting: From logits and `allowed` to weights, zero where not allowed.
        allowed: Booleans that broadcast to (B, N, T, S); None for all pairs.
        bias: Added to the logits.
        dropout: Applied to the weights that meet the values.
        pair_values: From these weights to a term of the output.

    Returns:
        The output (B, T, N, V) and the weights before dropout (B, N, T, S).
    """
    logits = score(query, key, allowed)
    if bias is not None:
        logits = ops.add(logits, bias)
    weights = weighting(logits, allowed)
    dropped = weights if dropout is None else dropout(weights)
    output = swap_heads(batched_matmul(dropped, swap_heads(value)))
    return output if pair_values is None else output + pair_values(dropped), weights


@MECHANISMS.register("dense")
class Dense(Mechanism):
    """`output[t] = sum_s weighting(score(query[t], key[s])) * value[s]`, for each head.

    Time and memory grow with T times S. The output of a query that may attend no key is zero.

    Args:
        score: The similarity of a query and a key: an instance, a name or a config of
            `recsys_attn.attention.scores`. Defaults to `"scaled_dot"`.
        pattern: The keys that a query may attend; of `recsys_attn.attention.patterns`. Defaults to
            all keys; use `"causal"` for sequence models.
        weighting: From scores to weights; of `recsys_attn.attention.weightings`. Defaults to
            `"softmax"`.
        dropout: Share of the weights dropped in training. Defaults to 0; raise it against
            overfitting.
        pair_values: Vectors of pairs beside the values, such as `TimeIntervalValues` (a
            `mechanisms.PairValues`): an instance, a name or a config. Defaults to none.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        masks: A `Masks`, or the same by name: `query_mask` (B, T) and `key_mask` (B, S), False for
            padding; `attention_mask` (B, T, S) or (B, N, T, S), False for pairs that are not
            allowed; `attention_bias` of the same shape, added to the scores; `query_positions`
            (B, T) and `key_positions` (B, S), integers, by default 0 ... S-1 for the keys and the
            last T of them for the queries. Where the score reads times, they are times, and the
            pattern and other scores count the default places. Do not use a bias of -inf as a mask:
            the softmax of a row of -inf alone is uniform, and not zero.

    One of the two batches, of queries or of keys, may be 1. Padded values must be finite.

    Returns:
        The output of each head (B, T, N, V) and the weights before dropout (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Dense
    >>> query = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> output, weights = Dense("additive")(query, history, history)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 3, 4, 8), (2, 4, 3, 5))
    """

    honours = MASK_ARGUMENTS
    returns_weights = True

    elsewhere: ClassVar = {
        **Mechanism.elsewhere,
        "causal": "give pattern='causal'",
        "place_bias": "add it to the score, as in Dot() + TimeBuckets() + RelativeBuckets()",
        "next_positions": "give the score TimeBuckets(next_event=True)",
    }

    def __init__(
        self,
        score: Any = "scaled_dot",
        pattern: Any = None,
        *,
        weighting: Any = "softmax",
        dropout: float = 0.0,
        pair_values: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.score = scores.get(score, dtype=self.dtype_policy)
        self.pattern = None if pattern is None else patterns.get(pattern)
        require_steady(self.pattern)
        self.weighting = weightings.get(weighting, dtype=self.dtype_policy)
        require_share("dropout", dropout)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.pair_values: Any = None
        if pair_values is not None:
            self.pair_values = PAIR_VALUES.get(pair_values, dtype=self.dtype_policy)

    @classmethod
    def from_config(cls, config: Config) -> Dense:
        # Models were saved with these two, nearly always empty.
        unset = {"place_bias": None, "next_positions": False}
        return super().from_config({k: v for k, v in config.items() if (k, v) not in unset.items()})

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        require_a_value_a_key(key_shape, value_shape)
        require_heads(self.pattern, key_shape[2])
        build_part(self, "score", self.score, query_shape, key_shape)
        build_weighting(self, self.weighting, logits_shape(query_shape, key_shape), query_shape)
        if self.pair_values is not None:
            shapes = query_shape, key_shape, value_shape
            build_part(self, "part `pair_values`", self.pair_values, *shapes)

    def call(
        self, query: Tensor, key: Tensor, value: Tensor, masks: Masks
    ) -> tuple[Tensor, Tensor]:
        most_keys = self.score.most_keys
        if most_keys is not None:
            key = keys_within(key, most_keys)
        allowed = masks.allowed()
        if self.pattern is not None:
            allowed = both(self._pattern(query, key, masks), allowed)

        def score(query: Tensor, key: Tensor, allowed: Tensor | None) -> Tensor:
            if masks.context is None:
                return logits_of(self.score, query, key, allowed, masks.rows, masks.columns)
            return logits_with_context(self.score, query, key, allowed, masks)

        def weighting(logits: Tensor, allowed: Tensor | None) -> Tensor:
            if masks.bias is not None:
                logits = ops.maximum(logits, self._lowest_logit)
            weights = weights_of(self.weighting, logits, allowed, query)
            return ops.cast(weights, self.compute_dtype)

        def pair_values(weights: Tensor) -> Tensor:
            positions = (x.read_by(self.pair_values) for x in (masks.rows, masks.columns))
            return self.pair_values(weights, query, key, allowed, *positions)

        bias = None if masks.bias is None else ops.cast(masks.bias, "float32")
        added = None if self.pair_values is None else pair_values
        return attention(query, key, value, score, weighting, allowed, bias, self.dropout, added)

    def _pattern(self, query: Tensor, key: Tensor, masks: Masks) -> Tensor:
        rows, columns, context = masks.query_positions, masks.key_positions, masks.context_size
        events = key[:, context:]
        present = None if masks.key is None else masks.key[:, context:]
        length = length_of(events, columns, present)
        pattern = self.pattern(*pairs(*resolve(query, events, rows, columns)), length)
        return in_front(pattern, context, ops.shape(events)[1], True) if context else pattern

    def require_context(self) -> None:
        require_no_places(self)

    @property
    def _lowest_logit(self) -> float:
        """The least logit that a bias leaves: -inf in a whole row would be NaN in its softmax."""
        # float16 ends at -65504. Half of `NEVER` is above the logit of a masked pair, and the sum
        # of both is finite in bfloat16 too.
        return -6e4 if self.weighting.compute_dtype == "float16" else NEVER / 2

    @property
    def shares_query_and_key(self) -> bool:
        return self.score.shares_query_and_key

    @property
    def positional(self) -> bool:
        has_parts = self.pattern is not None or self.pair_values is not None
        return has_parts or self.score.positional

    @property
    def uses_times(self) -> bool:
        return self.score.uses_times or getattr(self.pair_values, "uses_times", False)

    @property
    def reads_columns(self) -> bool:
        """Whether the score has weights for each column; known after `build`."""
        return self.score.most_keys is not None

    @property
    def is_causal(self) -> bool:
        return self.pattern is not None and self.pattern.is_causal

    @property
    def uses_query(self) -> bool:
        return self.score.uses_query or self.weighting.needs_query

    @property
    def uses_key(self) -> bool:
        return self.score.uses_key
