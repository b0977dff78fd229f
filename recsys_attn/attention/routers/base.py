"""The base class of routers."""

from __future__ import annotations

from typing import Any, NamedTuple

from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor


class Groups(NamedTuple):
    """Queries with their keys, as a batch of G small attentions.

    G is the batch times the number of groups, so that scores and patterns apply to groups as to
    whole sequences.

    Args:
        query: (G, T', N, H).
        key: (G, S', N, H).
        value: (G, S', N, V).
        query_positions: (G or 1, N or 1, T'), positions in the sequence; None for a router without
            positions.
        key_positions: (G or 1, N or 1, S').
        allowed: Booleans that broadcast to (G, N, T', S'); None if every pair counts.
        bias: Added to the logits, to which it broadcasts.
        way_back: Data for `merge`.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    query_positions: Tensor | None = None
    key_positions: Tensor | None = None
    allowed: Tensor | None = None
    bias: Tensor | None = None
    way_back: Any = None


class Router(Layer):
    """Splits a sequence into groups, and merges the outputs of the groups.

    `Routed` calls `group` and `merge`; `Lookup`, for cross-attention, calls `look_up`.

    Attributes:
        default_score: Name of the default score.
        shares_query_and_key: Whether queries and keys have one projection.
        content_based: Whether the groups depend on the tokens, including future ones.
        has_positions: Whether a token in a group has a position in the sequence.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Routed
    >>> from recsys_attn.attention.routers import Groups, Router
    >>> class WholeSequence(Router):
    ...     def group(self, query, key, value, query_mask, key_mask, training):
    ...         positions = keras.ops.arange(keras.ops.shape(key)[1])[None, None]
    ...         return [Groups(query, key, value, positions, positions)]
    ...     def merge(self, groups, outputs, masses):
    ...         return outputs[0]
    >>> events = keras.random.normal((2, 5, 1, 8))
    >>> tuple(Routed(WholeSequence())(events, events, events)[0].shape)
    (2, 5, 1, 8)
    """

    default_score = "scaled_dot"
    shares_query_and_key = False
    content_based = False
    has_positions = True

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        pass

    @property
    def depends_on_length(self) -> bool:
        """Whether the length decides if two positions are in one group."""
        return False

    def require_covered(self, pattern: Pattern) -> None:
        """Raises if a pattern allows pairs that are never in one group.

        The default checks nothing, for groups that depend on the tokens.
        """

    def group(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_mask: Tensor | None,
        key_mask: Tensor | None,
        training: bool | None,
    ) -> list[Groups]:
        """Returns the groups; those of equal size are one item.

        Args:
            query, key: (B, S, N, H).
            value: (B, S, N, V).
            query_mask, key_mask: (B, S), False for padding, which must not displace a token.
            training: Whether to add noise and update moving averages.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `group`")

    def look_up(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_mask: Tensor | None,
        key_mask: Tensor | None,
        query_positions: Tensor,
        key_positions: Tensor,
        training: bool | None,
    ) -> Groups:
        """Finds keys for each query of a cross-attention.

        Args:
            query: (B, T, N, H).
            key: (B, S, N, H).
            value: (B, S, N, V).
            query_mask, key_mask: (B, T) and (B, S), False for padding.
            query_positions, key_positions: (B or 1, N or 1, T) and (B or 1, N or 1, S).
            training: Whether to add noise and update moving averages.

        Returns:
            Groups; their queries, one group after the other, are `query`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `look_up` for cross-attention"
        )

    def merge(self, groups: list[Groups], outputs: list[Tensor], masses: list[Tensor]) -> Tensor:
        """Returns the output of each token, (B, S, N, V).

        Args:
            groups: The result of `group`.
            outputs: (G, T', N, V) of each item.
            masses: (G, N, T'), the logsumexp of the logits, very negative if no key is allowed.
                With it several groups of a query can be merged under one softmax.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `merge`")


ROUTERS = Registry("a router", "routers", Router)
