"""The common part of `Routed` and `Lookup`: attention inside groups."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from recsys_attn.attention import patterns, routers, scores
from recsys_attn.attention.core.head_layout import (
    batched_matmul,
    broadcast_size,
    head_sizes,
    logits_shape,
    swap_heads,
)
from recsys_attn.attention.core.masks import Masks, both
from recsys_attn.attention.core.places import PlacesAndTimes, pairs
from recsys_attn.attention.core.weights import SparseWeights
from recsys_attn.attention.mechanisms.base import Mechanism
from recsys_attn.attention.patterns.base import require_heads, require_steady
from recsys_attn.attention.routers.group_layout import padded
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.attention.routers.pair_lists import at_index, indices_of, of_pairs
from recsys_attn.attention.scores.base import logits_of
from recsys_attn.attention.weightings.softmax import NEVER, masked_softmax
from recsys_attn.backend.dropout import Dropout
from recsys_attn.checks import require_share
from recsys_attn.layer import build_part
from recsys_attn.tensors import Shape, Tensor


class Grouped(Mechanism):
    """A softmax over the pairs inside each group of a router; the base of `Routed` and `Lookup`.

    Args:
        router: Makes the groups: an instance, a name or a config of
            `recsys_attn.attention.routers`.
        score: The similarity of a query and a key; of `recsys_attn.attention.scores`. Defaults to
            the router's score.
        pattern: The keys that a query may attend, among those of its group; of
            `recsys_attn.attention.patterns`. Defaults to all of them.
        dropout: Share of the weights dropped in training. Defaults to 0.

    Raises:
        ValueError: A pattern that hides the future, even in part, with a router that uses the
            whole sequence, or a positional part with a router that keeps no positions.

    Example:

    >>> from recsys_attn.attention.mechanisms.grouped import Grouped
    >>> Grouped("lsh").shares_query_and_key
    True
    """

    elsewhere: ClassVar = {
        **Mechanism.elsewhere,
        "weighting": "its weights are a softmax over a group; Dense and Compressed take one",
        "causal": "give it to the router, or pattern='causal' to a router Blocks",
    }

    def __init__(
        self,
        router: Any,
        score: Any = None,
        pattern: Any = None,
        *,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.router = routers.get(router, dtype=self.dtype_policy)
        score = self.router.default_score if score is None else score
        self.score = scores.get(score, dtype=self.dtype_policy)
        self.pattern = None if pattern is None else patterns.get(pattern)
        require_share("dropout", dropout)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self._refuse_what_makes_no_sense()
        self.honours = self._honoured()

    def _refuse_what_makes_no_sense(self) -> None:
        router = type(self.router).__name__
        looks_ahead = self.router.content_based and not self.router.causal
        if looks_ahead and self.pattern is not None and self.pattern.hides_future:
            raise ValueError(
                f"The groups of {router} depend on the whole sequence, so with a causal `pattern` "
                "the future would leak into the past. Give the router causal=True, or use the "
                f"router Blocks. Received: {self.pattern!r}"
            )
        if self.score.needs_every_pair:
            raise ValueError(
                "The score needs all events, and a group has a few: the unit of time intervals is "
                "the shortest one of all events, and `next_event` reads the event after a query. "
                "Use TimeBuckets without `next_event`, or the mechanism Dense. "
                f"Received: score={self.score!r}"
            )
        if not self.router.has_positions and (self.pattern is not None or self.score.positional):
            raise ValueError(
                f"{router} mixes tokens of several positions, so neither a pattern nor a score "
                "that looks at positions fits it. Use the router Blocks, or leave them out. "
                f"Received: score={type(self.score).__name__}, pattern={self.pattern!r}"
            )

        require_steady(self.pattern, self.router.depends_on_length)
        if self.pattern is not None:
            self.router.require_covered(self.pattern)

    def _honoured(self) -> tuple[str, ...]:
        """Returns the names of the masks and positions that the groups can have."""
        names = [*self.honours]
        if self.router.has_positions:
            names.append("attention_bias")
            if not self.router.content_based:
                names.append("attention_mask")
            if self.own_sequence and (self.pattern is None or self.uses_times):
                names += ["query_positions", "key_positions"]
        return tuple(names)

    def reason(self, name: str) -> str:
        router = type(self.router).__name__
        if not self.router.has_positions:
            return f"{router} mixes keys of several positions"
        if name.endswith("positions"):
            return "its pattern is one of places in the sequence"
        if name == "attention_mask":
            return f"the groups of {router} depend on every key, so one that it hides would count"
        return super().reason(name)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        heads, _, _ = head_sizes(query_shape, key_shape)
        require_heads(self.pattern, heads)
        build_part(self, "router", self.router, query_shape, key_shape, value_shape)
        build_part(self, "score", self.score, query_shape, key_shape)

    def take_heads(self, keep: Sequence[int]) -> None:
        super().take_heads(keep)
        self.router.take_heads(keep)

    def attend(self, groups: Groups, length: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Returns outputs (G, T', N, V), logits (G, N, T', S'), very negative if not allowed, and
        weights of their shape, before dropout.

        Args:
            groups: Groups of the router.
            length: The result of `length_of`, for the pattern.
        """
        rows = PlacesAndTimes(groups.query_positions, groups.query_times)
        columns = PlacesAndTimes(groups.key_positions, groups.key_times)
        allowed = groups.allowed
        if self.pattern is not None:
            length = _of_groups(length, groups.query)
            allowed = both(self.pattern(*pairs(rows.places, columns.places), length), allowed)
        logits = logits_of(self.score, groups.query, groups.key, allowed, rows, columns)
        logits = ops.cast(logits, "float32")
        if groups.bias is not None:
            logits = ops.maximum(logits + groups.bias, NEVER / 2)
        weights = ops.cast(masked_softmax(logits, allowed), self.compute_dtype)
        output = swap_heads(batched_matmul(self.dropout(weights), swap_heads(groups.value)))
        return output, logits if allowed is None else ops.where(allowed, logits, NEVER), weights

    @property
    def weights_on_request(self) -> bool:
        return True

    def weights_spec(self, query_shape: Shape, key_shape: Shape) -> SparseWeights:
        batch, heads, *_ = logits_shape(query_shape, key_shape)
        index, weight = (
            keras.KerasTensor((batch, heads, None), dtype=dtype)
            for dtype in ("int32", self.compute_dtype)
        )
        return SparseWeights(index, index, weight)

    @property
    def reads_columns(self) -> bool:
        """Whether the result depends on the columns of the keys: groups may hold neighbours."""
        return True

    @property
    def uses_times(self) -> bool:
        return self.score.uses_times

    @property
    def uses_query(self) -> bool:
        return self.router.content_based or self.score.uses_query

    @property
    def is_causal(self) -> bool:
        return self.router.causal or (self.pattern is not None and self.pattern.is_causal)

    @property
    def shares_query_and_key(self) -> bool:
        return self.router.shares_query_and_key or self.score.shares_query_and_key


def with_pairs(groups: Groups, batch: Tensor, masks: Masks) -> Groups:
    """Adds the mask and the bias of each pair to groups, for a number of examples B."""
    if masks.pairs is not None:
        groups = groups._replace(allowed=both(groups.allowed, of_pairs(groups, masks.pairs, batch)))
    if masks.bias is not None:
        bias = of_pairs(groups, masks.bias, batch)
        groups = groups._replace(bias=bias if groups.bias is None else groups.bias + bias)
    return groups


def with_positions(groups: Groups, batch: Tensor, masks: Masks) -> Groups:
    """Adds the times of a call to groups, and replaces their places by those of the call."""
    indices = dict(zip(("query", "key"), indices_of(groups), strict=True))
    groups = groups._replace(query_index=indices["query"], key_index=indices["key"])
    for side, index in indices.items():
        for name in (f"{side}_positions", f"{side}_times"):
            if (numbers := getattr(masks, name)) is not None:
                sizes = ops.shape(groups.query)[0], *ops.shape(index)[1:]
                numbers = at_index(numbers, ops.broadcast_to(index, sizes), batch)
                groups = groups._replace(**{name: numbers})
    return groups


def of_present(weights: SparseWeights, query_mask: Tensor | None) -> SparseWeights:
    """Sets the weights of padded queries to zero, for a mask (B, T)."""
    if query_mask is None:
        return weights
    batch, heads, _ = ops.shape(weights.query)
    mask = ops.broadcast_to(query_mask[:, None], (batch, heads, ops.shape(query_mask)[1]))
    present = ops.take_along_axis(mask, weights.query, axis=-1)
    return weights._replace(weight=weights.weight * ops.cast(present, weights.weight.dtype))


def of_tokens(x: Tensor, mask: Tensor | None) -> Tensor | None:
    """Broadcasts a mask of x (B, S, ...) to (B, S)."""
    return None if mask is None else ops.broadcast_to(mask, ops.shape(x)[:2])


def whole(masks: Masks, queries: Tensor, keys: Tensor, one_sequence: bool = False) -> Masks:
    """Broadcasts the mask, bias and positions of pairs to all tokens, with those of `never_empty`.

    Args:
        masks: Masks of a call.
        queries, keys: Numbers of queries T and of keys S.
        one_sequence: Whether the queries are the keys.
    """
    more = tokens_missing(keys)
    before = more if one_sequence else 0

    def pairs(x: Tensor | None) -> Tensor | None:
        if x is None:
            return None
        x = ops.broadcast_to(x, (*ops.shape(x)[:2], queries, keys))
        return padded(padded(x, 0, before, axis=2), 0, more, axis=3)

    def places(x: Tensor | None, count: Tensor, more: Tensor) -> Tensor | None:
        if x is None:
            return None
        return padded(ops.broadcast_to(x, (*ops.shape(x)[:2], count)), 0, more, axis=2)

    return masks._replace(
        pairs=pairs(masks.pairs),
        bias=pairs(masks.bias),
        query_positions=places(masks.query_positions, queries, before),
        key_positions=places(masks.key_positions, keys, more),
        query_times=places(masks.query_times, queries, before),
        key_times=places(masks.key_times, keys, more),
    )


def of_one_batch(
    tensors: tuple[Tensor, ...], others: tuple[Tensor | None, ...]
) -> tuple[Tensor, ...]:
    """Broadcasts the tensors to the common batch of all tensors, the others included."""
    present = [x for x in (*tensors, *others) if x is not None]
    batch = functools.reduce(broadcast_size, (ops.shape(x)[0] for x in present))
    return tuple(ops.broadcast_to(x, (batch, *ops.shape(x)[1:])) for x in tensors)


def never_empty(mask: Tensor | None, *tensors: Tensor) -> tuple[Any, ...]:
    """Adds one token of padding to a mask (B, S) and its tensors (B, S, ...) if S is 0.

    So a router always has a token. If S is unknown, the result has a mask.
    """
    batch, length = ops.shape(tensors[0])[:2]
    missing = tokens_missing(length)
    if isinstance(missing, int) and not missing:
        return mask, *tensors
    present = ops.ones((batch, length), "bool") if mask is None else mask
    return tuple(padded(x, 0, missing) for x in (present, *tensors))


def tokens_missing(length: Tensor) -> Tensor:
    """Returns 1 for an empty sequence, else 0."""
    return max(1 - length, 0) if isinstance(length, int) else ops.maximum(1 - length, 0)


def _of_groups(length: Any, query: Tensor) -> Any:
    """Repeats the length of each request for its groups."""
    if isinstance(length, int) or len(length.shape) == 0:
        return length  # one for all
    requests = ops.shape(length)[0]  # perhaps none
    some = max(requests, 1) if isinstance(requests, int) else ops.maximum(requests, 1)
    return ops.repeat(length, ops.shape(query)[0] // some, axis=0)
