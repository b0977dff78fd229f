"""Compressed attention: every query with summaries of the keys."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from recsys_attn.attention import compressors, scores, weightings
from recsys_attn.attention.core.head_layout import logits_shape, require_a_value_a_key
from recsys_attn.attention.core.masks import Masks, both
from recsys_attn.attention.core.places import PlacesAndTimes, natural_positions, pairs
from recsys_attn.attention.core.weights import SummaryWeights
from recsys_attn.attention.mechanisms.base import MECHANISMS, Mechanism
from recsys_attn.attention.mechanisms.dense import attention
from recsys_attn.attention.scores.base import logits_of
from recsys_attn.attention.scores.position_tables import keys_within
from recsys_attn.attention.weightings.base import build_weighting, weights_of
from recsys_attn.backend.dropout import Dropout
from recsys_attn.checks import require_bool, require_share
from recsys_attn.layer import build_part
from recsys_attn.tensors import Shape, Tensor


@MECHANISMS.register("compressed")
class Compressed(Mechanism):
    """`output[t] = sum_c weighting(score(query[t], key'[c])) * value'[c]`, for each head.

    C summaries `key'`, `value'` replace S keys and values; time and memory grow with T times C. C
    is fixed for `LowRank` and `Segments`, and S divided by the stride for the others.

    With `causal`, query t may attend a summary whose last event is at t or earlier. So the output
    of the first queries is zero, and a last summary that is not full is attended by no query:
    combine it with local attention or a residual. (In Tensor2Tensor the last event is strictly
    before t.) `LowRank` and `Segments` have no causal form.

    The position of a summary, for a positional score, is that of its last event, even if it is not
    full. So padding after the events changes nothing.

    Sources: Wang et al., "Linformer: Self-Attention with Linear Complexity", 2020,
    arXiv 2006.04768; Liu et al., "Generating Wikipedia by Summarizing Long Sequences", ICLR 2018,
    arXiv 1801.10198.

    Args:
        compressor: Summarises keys and values: an instance, a name or a config of
            `recsys_attn.attention.compressors`.
        score: The similarity of a query and a summary; of `recsys_attn.attention.scores`. Defaults
            to `"scaled_dot"`.
        weighting: From scores to weights; of `recsys_attn.attention.weightings`. Defaults to
            `"softmax"`.
        causal: Whether to hide later events from a query. Defaults to False.
        dropout: Share of the weights dropped in training. Defaults to 0.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        masks: A `Masks`, or by name `query_mask` (B, T) and `key_mask` (B, S), False for padding.
        return_weights: Whether to return weights too.

    One of the two batches, of queries or of keys, may be 1. Padded values must be finite.

    Returns:
        The output of each head (B, T, N, V), and None or the weights before dropout, as
        `SummaryWeights`: those of the summaries, and the share of each key in a summary. Their
        product applied to the values is the output for `LowRank`, and for means of `Pool` and
        `Segments`; a summary of `Convolution`, and a maximum, count their events equally.

    Raises:
        ValueError: The compressor has no order of events for `causal` or for a positional score,
            the score reads times, or T is not S with `causal`.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Compressed
    >>> from recsys_attn.attention.compressors import LowRank
    >>> candidates = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 50, 4, 8))
    >>> output, _ = Compressed(LowRank(16, length=200))(candidates, history, history)
    >>> tuple(output.shape)
    (2, 3, 4, 8)
    """

    honours = ("query_mask", "key_mask")
    elsewhere: ClassVar = {
        **Mechanism.elsewhere,
        "pattern": "summaries stand for many keys; Dense takes a pattern, and causal=True is here",
    }

    def __init__(
        self,
        compressor: Any,
        score: Any = "scaled_dot",
        *,
        weighting: Any = "softmax",
        causal: bool = False,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.compressor = compressors.get(compressor, dtype=self.dtype_policy)
        self.score = scores.get(score, dtype=self.dtype_policy)
        self.weighting = weightings.get(weighting, dtype=self.dtype_policy)
        require_bool("causal", causal)
        require_share("dropout", dropout)
        self.causal = causal
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self._check_order()

    def _check_order(self) -> None:
        if self.score.uses_times:
            raise ValueError(
                "A score of times is not possible, since a summary stands for events of several "
                f"times. Use the mechanism Dense or Routed. Received: score={self.score!r}"
            )
        if self.compressor.ordered:
            return
        name = type(self.compressor).__name__
        if self.causal:
            raise ValueError(
                f"`causal` is not possible with {name}, since each summary depends on every "
                "event. Use the compressor Convolution or Pool, or the mechanism Linear with "
                "causal=True"
            )
        if self.score.positional:
            raise ValueError(
                f"A positional score is not possible with {name}, since its summaries have no "
                "position. Use the compressor Convolution or Pool, or a score without positions. "
                f"Received: score={type(self.score).__name__}"
            )

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        require_a_value_a_key(key_shape, value_shape)
        queries, keys = query_shape[1], key_shape[1]
        if self.causal and None not in (queries, keys) and queries != keys:
            raise ValueError(
                "With `causal` a sequence attends to itself, so `query` and `key` must have the "
                f"same length. Received: {queries} queries and {keys} keys"
            )
        build_part(self, "compressor", self.compressor, key_shape, value_shape)
        summary_shape = (key_shape[0], self.compressor.count(keys), *key_shape[2:])
        # The positions of summaries are positions of keys.
        build_part(self, "score", self.score, query_shape, key_shape)
        build_weighting(self, self.weighting, logits_shape(query_shape, summary_shape), query_shape)

    def call(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        masks: Masks,
        return_weights: bool = False,
    ) -> tuple[Tensor, SummaryWeights | None]:
        key_mask = masks.key
        if key_mask is not None:
            key_mask = ops.broadcast_to(key_mask, (ops.shape(key_mask)[0], ops.shape(key)[1]))
        key = keys_within(key, self.score.most_keys)
        summaries = self.compressor.compress(key, value, key_mask)
        rows, _ = natural_positions(query, key)
        _, places = natural_positions(query, summaries.key)
        ends = self.compressor.ends(places) if self.compressor.ordered else None
        allowed = Masks(query=masks.query, key=summaries.key_mask).allowed()
        if self.causal:
            allowed = both(_seen(rows, ends), allowed)

        def score(query: Tensor, key: Tensor, allowed: Tensor | None) -> Tensor:
            positions = PlacesAndTimes(rows), PlacesAndTimes(ends)
            return logits_of(self.score, query, key, allowed, *positions)

        def weighting(logits: Tensor, allowed: Tensor | None) -> Tensor:
            weights = weights_of(self.weighting, logits, allowed, query)
            return ops.cast(weights, self.compute_dtype)

        output, weights = attention(
            query,
            summaries.key,
            summaries.value,
            score,
            weighting,
            allowed,
            dropout=self.dropout,
        )
        if not return_weights:
            return output, None
        share, _ = self.compressor.shares(ops.shape(key)[1], key_mask)
        return output, SummaryWeights(weights, share)

    @property
    def weights_on_request(self) -> bool:
        return self.compressor.has_shares

    def weights_spec(self, query_shape: Shape, key_shape: Shape) -> SummaryWeights:
        batch, heads, queries, keys = logits_shape(query_shape, key_shape)
        count = self.compressor.count(keys)
        return SummaryWeights(
            keras.KerasTensor((batch, heads, queries, count), dtype=self.compute_dtype),
            keras.KerasTensor((None, None, count, keys), dtype="float32"),
        )

    def require_distinct_results(self, queries: int, keys: int | None, name: str) -> None:
        super().require_distinct_results(queries, keys, name)
        if queries > 1 and keys not in (None, 1) and self.compressor.count(keys) == 1:
            raise ValueError(
                f"{type(self.compressor).__name__} makes one summary of {keys} keys, so all of "
                "several learned queries would get the same result. Use a smaller stride, or a "
                f"mechanism without summaries. Received: {name}={queries}"
            )

    @property
    def is_causal(self) -> bool:
        return self.causal

    @property
    def positional(self) -> bool:
        return self.score.positional

    @property
    def reads_columns(self) -> bool:
        """Whether the result depends on the columns of the keys: summaries hold neighbours."""
        return True

    @property
    def uses_query(self) -> bool:
        return self.score.uses_query or self.weighting.needs_query

    @property
    def shares_query_and_key(self) -> bool:
        return self.score.shares_query_and_key


def _seen(rows: Tensor, ends: Tensor) -> Tensor:
    """Compares queries at rows (1, 1, T) with ends (1, 1, C): True at the end or after it."""
    query_positions, key_positions = pairs(rows, ends)
    return key_positions <= query_positions
