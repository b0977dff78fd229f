"""Routed attention: every query with the keys of its group."""

from __future__ import annotations

from typing import Any

from keras import ops

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
    whole,
    with_pairs,
    with_positions,
)
from recsys_attn.attention.mechanisms.lookup import Lookup
from recsys_attn.attention.routers.base import Router
from recsys_attn.attention.routers.group_layout import between
from recsys_attn.attention.scores.position_tables import keys_within
from recsys_attn.checks import require_bool
from recsys_attn.tensors import Shape, Tensor


@MECHANISMS.register("routed")
class Routed(Grouped):
    """Self-attention of each query to the keys that a router puts in its group.

    `output[t] = sum_{s in route(t)} softmax_{s in route(t)}(score(query[t], key[s])) * value[s]`

    Time and memory grow with S times the size of a group, not with S squared. The output of a
    query that may attend no key is zero. A router whose groups depend on the tokens uses the
    future too, so it cannot be combined with a causal pattern; its option `causal` makes other
    groups.

    Args:
        router: Makes the groups: an instance, a name or a config of
            `recsys_attn.attention.routers`.
        score: The similarity of a query and a key; of `recsys_attn.attention.scores`. Defaults to
            the router's score.
        pattern: The keys that a query may attend, among those of its group; of
            `recsys_attn.attention.patterns`. Defaults to all of them.
        dropout: Share of the weights dropped in training. Defaults to 0.

        global_projections: Whether global queries, those of global tokens and of first and last
            blocks, have queries, keys and values of projections of their own, as in Longformer.
            They start as copies of the others. Defaults to False; it doubles the projections.

    Call arguments:
        query: (B, S, N, H).
        key: (B, S, N, H).
        value: (B, S, N, V). With `global_projections`, query, key and value hold those of the
            global queries behind the others: (B, S, N, 2 H), (B, S, N, 2 H), (B, S, N, 2 V).
        masks: A `Masks`, or by name `query_mask` and `key_mask` (B, S), False for padding. With
            only a key mask, the router uses it for the queries too. A router whose tokens have
            positions also takes `attention_bias` (B, S, S) or (B, N, S, S), and without a pattern,
            or with a score of times, `query_positions` and `key_positions` (B, S) for the score;
            one whose groups do not depend on the tokens (`Blocks`) also `attention_mask`.
        return_weights: Whether to return weights too, which takes memory for each pair.

    Returns:
        The output of each head (B, S, N, V), and None or the weights before dropout, as
        `SparseWeights`. `Sinkhorn` gives every pair a weight, since it mixes the keys.

    Raises:
        ValueError: Queries and keys are not as many; a causal pattern meets a router that looks
            at the whole sequence; a part looks at positions, which the router does not keep.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import patterns
    >>> from recsys_attn.attention.mechanisms import Routed
    >>> from recsys_attn.attention.routers import Blocks
    >>> events = keras.random.normal((2, 1000, 4, 8))
    >>> output, _ = Routed(Blocks(64), pattern=patterns.Local(50))(events, events, events)
    >>> tuple(output.shape)
    (2, 1000, 4, 8)
    """

    honours: tuple[str, ...] = ("query_mask", "key_mask")

    def __init__(
        self,
        router: Any,
        score: Any = None,
        pattern: Any = None,
        *,
        dropout: float = 0.0,
        global_projections: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(router, score, pattern, dropout=dropout, **kwargs)
        require_bool("global_projections", global_projections)
        self.global_projections = global_projections
        if global_projections and not self.router.has_global_queries:
            raise ValueError(
                "`global_projections` are those of global tokens, which this router does not have: "
                "give Blocks `tokens`, `first` or `last`. Received: global_projections=True"
            )

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        _require_one_sequence(query_shape, key_shape, value_shape)
        shapes = (query_shape, key_shape, value_shape)
        super().build(*((*s[:-1], (s[-1] or 0) // self.projections) for s in shapes))

    def call(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        masks: Masks,
        return_weights: bool = False,
        training: bool | None = None,
    ) -> tuple[Tensor, SparseWeights | None]:
        _require_one_sequence(query.shape, key.shape, value.shape)
        query = ops.reshape(
            query, ops.shape(key)
        )  # so that a graph of unknown sizes fails too if T is not S
        query, key, value = of_one_batch((query, key, value), masks)
        far: Any = None
        if self.global_projections:
            pairs = [ops.split(x, 2, axis=-1) for x in (query, key, value)]
            (query, key, value), far = zip(*pairs, strict=True)
        query_mask, key_mask = of_tokens(query, masks.query), of_tokens(key, masks.key)
        key = keys_within(key, self.score.most_keys)
        present = length_of(key, None, key_mask)
        routed_mask = key_mask if query_mask is None else query_mask
        length = ops.shape(key)[1]
        routed_mask, query = never_empty(routed_mask, query)
        key_mask, key, value = never_empty(key_mask, key, value)
        groups = self.router.group(query, key, value, routed_mask, key_mask, training)
        if far is not None:
            _, *far = never_empty(None, *far)
            groups = self.router.with_global_inputs(groups, *far)
        batch, masks = ops.shape(key)[0], whole(masks, length, length, one_sequence=True)
        if self.router.has_positions:
            groups = [
                with_positions(with_pairs(group, batch, masks), batch, masks) for group in groups
            ]
        attended = [self.attend(group, present) for group in groups]
        outputs = [output for output, _, _ in attended]
        masses = [ops.logsumexp(logits, axis=-1) for _, logits, _ in attended]
        output = ops.cast(self.router.merge(groups, outputs, masses), self.compute_dtype)
        output = between(output, 0, length)
        if query_mask is not None:
            output = ops.where(query_mask[:, :, None, None], output, ops.zeros_like(output))
        if not return_weights:
            return output, None
        weights = self.router.pair_weights(
            batch,
            groups,
            [weights for _, _, weights in attended],
            self.router.shares(groups, masses),
        )
        return output, of_present(weights, None if query_mask is None else routed_mask)

    @property
    def projections(self) -> int:
        return 2 if self.global_projections else 1

    @property
    def own_sequence(self) -> bool:
        return True

    @property
    def weights_on_request(self) -> bool:
        return type(self.router).shares is not Router.shares

    def as_cross_attention(self) -> Lookup:
        """Returns a `Lookup` with the same parts, which refuses a causal router."""
        if self.global_projections:
            raise ValueError(
                "With global_projections=True Routed is self-attention: in cross-attention no "
                "query is a global token. Leave it out. Received: global_projections=True"
            )
        lookup = Lookup(
            self.router,
            self.score,
            self.pattern,
            dropout=self.dropout.rate,
            dtype=self.dtype_policy,
        )
        return lookup.as_cross_attention()


def _require_one_sequence(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
    shapes = {tuple(shape[:2]) for shape in (query_shape, key_shape, value_shape)}
    for sizes in zip(*shapes, strict=True):
        if len({size for size in sizes if size is not None}) > 1:
            raise ValueError(
                "Routed is self-attention, so `query`, `key` and `value` must have the same batch "
                "and the same number of positions; for cross-attention use the mechanism Lookup, "
                "Linear or Compressed. "
                f"Received: query.shape={tuple(query_shape)}, "
                f"key.shape={tuple(key_shape)}, value.shape={tuple(value_shape)}"
            )
