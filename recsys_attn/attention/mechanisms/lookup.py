"""Lookup attention: every query with the few keys that a router finds for it."""

from __future__ import annotations

from keras import ops

from recsys_attn.attention.core.head_layout import require_a_value_a_key
from recsys_attn.attention.core.masks import Masks
from recsys_attn.attention.core.places import length_of
from recsys_attn.attention.core.weights import SparseWeights
from recsys_attn.attention.mechanisms.base import MECHANISMS
from recsys_attn.attention.mechanisms.grouped import (
    Grouped,
    never_empty,
    of_one_batch,
    of_present,
    of_tokens,
    tokens_missing,
    whole,
    with_pairs,
    with_positions,
)
from recsys_attn.attention.routers.group_layout import padded
from recsys_attn.attention.scores.position_tables import keys_within
from recsys_attn.tensors import Shape, Tensor


@MECHANISMS.register("lookup", saved_as="Retrieved", retrieved={})
class Lookup(Grouped):
    """Cross-attention of each query to the few keys that a router finds for it.

    `output[t] = sum_{s in found(t)} softmax_{s in found(t)}(score(query[t], key[s])) * value[s]`

    For candidates over a long history, or tasks over experts: the keys of a query do not depend on
    the other queries. Time and memory grow with T times the number of keys found, and with S only
    for the preparation: hashing the keys, or comparing them with centroids. The output of a query
    without keys is zero. The docstring of each router says which keys it finds.

    With `Lsh` it follows ETA and SDIM: hashes, not scores, find the events for a candidate. ETA
    takes the events whose hashes differ in the fewest bits, and SDIM attends the whole bucket
    without a softmax, as the mean over rounds of its normalised sum.

    Sources: Chen et al., "Efficient Long Sequential User Data Modeling for Click-Through Rate
    Prediction", 2022, arXiv 2209.12212; Cao et al., "Sampling Is All You Need on Modeling
    Long-Term User Behaviors for CTR Prediction", CIKM 2022, arXiv 2205.10249.

    Args:
        router: Finds the keys of a query: an instance, a name or a config of
            `recsys_attn.attention.routers`.
        score: The similarity of a query and a key; of `recsys_attn.attention.scores`. Defaults to
            the router's score.
        pattern: The keys that a query may attend, among those found; of
            `recsys_attn.attention.patterns`. Defaults to all of them.
        dropout: Share of the weights dropped in training. Defaults to 0.

    Call arguments:
        query: (B, T, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V).
        masks: A `Masks`, or by name `query_mask` (B, T) and `key_mask` (B, S), False for padding,
            and `query_positions` (B, T) and `key_positions` (B, S), integers. By default the keys
            stand at 0 ... S-1 and every query right after the last key that is present, so that
            queries do not differ by their place. A router whose tokens have positions also takes
            `attention_bias` (B, T, S) or (B, N, T, S), and one whose groups do not depend on the
            tokens (`Blocks`) also `attention_mask`.
        return_weights: Whether to return weights too.

    One of the two batches, of queries or of keys, may be 1. Padded values must be finite.

    Returns:
        The output of each head (B, T, N, V), and None or the weights before dropout, as
        `SparseWeights`. `Sinkhorn` gives every pair a weight, since it mixes the keys.

    Raises:
        ValueError: Keys and values are not as many; a causal pattern meets a router that looks at
            the whole sequence; a part looks at positions, which the router does not keep.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Lookup
    >>> from recsys_attn.attention.routers import Lsh
    >>> candidates = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 1000, 4, 8))
    >>> output, _ = Lookup(Lsh(16, buckets=32, rounds=2))(candidates, history, history)
    >>> tuple(output.shape)
    (2, 3, 4, 8)
    """

    honours: tuple[str, ...] = ("query_mask", "key_mask", "query_positions", "key_positions")

    def _refuse_what_makes_no_sense(self) -> None:
        super()._refuse_what_makes_no_sense()
        if self.router.causal:
            raise ValueError(
                f"With causal=True {type(self.router).__name__} is self-attention, and the queries "
                "of a Lookup come from elsewhere. Leave it out. Received: causal=True"
            )
        if self.uses_times and self.pattern is not None:
            raise ValueError(
                "A pattern counts places, and positions are times for this score. Leave one of the "
                f"two out. Received: score={type(self.score).__name__}, pattern={self.pattern!r}"
            )

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        require_a_value_a_key(key_shape, value_shape)
        super().build(query_shape, key_shape, value_shape)

    def call(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        masks: Masks,
        return_weights: bool = False,
        training: bool | None = None,
    ) -> tuple[Tensor, SparseWeights | None]:
        key = keys_within(key, self.score.most_keys)
        rows, columns = _positions(query, key, masks)
        query, key, value = of_one_batch((query, key, value), (*masks, rows, columns))
        query_mask, key_mask = of_tokens(query, masks.query), of_tokens(key, masks.key)
        length, keys = length_of(key, columns, key_mask), ops.shape(key)[1]
        key_mask, key, value = never_empty(key_mask, key, value)
        columns = padded(columns, 0, tokens_missing(keys), axis=2)
        groups = self.router.look_up(
            query, key, value, query_mask, key_mask, rows, columns, training
        )
        batch, masks = ops.shape(key)[0], whole(masks, ops.shape(query)[1], keys)
        groups = with_pairs(groups, batch, masks)
        if self.uses_times:  # beside the places, which the router has set
            groups = with_positions(groups, batch, masks)
        output, _, weights = self.attend(groups, length)
        output = ops.cast(output, self.compute_dtype)
        output = ops.reshape(output, (*ops.shape(query)[:3], value.shape[-1]))
        if query_mask is not None:
            output = ops.where(query_mask[:, :, None, None], output, ops.zeros_like(output))
        if not return_weights:
            return output, None
        groups = groups._replace(query_positions=None, key_positions=None)  # they are no indices
        listed = self.router.pair_weights(batch, [groups], [weights], [None])
        return output, of_present(listed, query_mask)

    @property
    def positional(self) -> bool:
        return self.router.has_positions


def _positions(query: Tensor, key: Tensor, masks: Masks) -> tuple[Tensor, Tensor]:
    """Returns positions of queries (B or 1, N or 1, T) and of keys (B or 1, N or 1, S)."""
    queries, keys = ops.shape(query)[1], ops.shape(key)[1]
    rows, columns = masks.query_positions, masks.key_positions
    if columns is None:
        columns = ops.arange(keys, dtype="int32")[None, None]
    if rows is None:
        rows = length_of(key, columns, masks.key)[..., 0]
    return (
        ops.broadcast_to(rows, (*ops.shape(rows)[:2], queries)),
        ops.broadcast_to(columns, (*ops.shape(columns)[:2], keys)),
    )
