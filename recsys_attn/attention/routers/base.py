"""What every router has in common."""

from __future__ import annotations

from typing import Any, NamedTuple

from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor


class Groups(NamedTuple):
    """Queries with the keys that they may meet, as a batch of G small attentions.

    G is the batch times the number of groups, so that scores and patterns run in groups as they
    do over whole sequences.

    Args:
        query: (G, T', N, H).
        key: (G, S', N, H).
        value: (G, S', N, V).
        query_positions: (G or 1, N or 1, T'), where in the sequence they stand; None for a router
            without positions.
        key_positions: (G or 1, N or 1, S').
        allowed: Booleans that broadcast to (G, N, T', S'); None where every pair counts.
        bias: Added to the logits; broadcasts to them.
        way_back: What `merge` needs.
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
    """Which tokens meet: it takes a sequence apart into groups, and puts the outputs together.

    For `Lookup`, whose queries come from elsewhere, it has `look_up` instead of these two.

    Attributes:
        default_score: Name of the score where none is chosen.
        shares_query_and_key: Whether the layer around it makes the keys with the projection of
            the queries.
        content_based: Whether the groups depend on the tokens, those of the future included.
        has_positions: Whether a token in a group still stands somewhere in the sequence.

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
        """Whether two positions meet at one length and not at another, whatever the tokens."""
        return False

    def require_covered(self, pattern: Pattern) -> None:
        """Raises where a pattern allows pairs that the router never brings together.

        Nothing to check where the groups depend on the tokens: there a pattern chooses among those
        that meet.
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
        """The groups: those of one size in one item.

        Args:
            query, key: (B, S, N, H).
            value: (B, S, N, V).
            query_mask, key_mask: (B, S), False for padding, which must displace no other token.
            training: Whether noise and moving averages are wanted.
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
        """What queries from elsewhere find among the keys, each for itself.

        Args:
            query: (B, T, N, H).
            key: (B, S, N, H).
            value: (B, S, N, V).
            query_mask, key_mask: (B, T) and (B, S), False for padding.
            query_positions, key_positions: (B or 1, N or 1, T) and (B or 1, N or 1, S).
            training: Whether noise and moving averages are wanted.

        Returns:
            Groups whose queries, one group after the other, are those given.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `look_up` for queries from elsewhere"
        )

    def merge(self, groups: list[Groups], outputs: list[Tensor], masses: list[Tensor]) -> Tensor:
        """The output of each token (B, S, N, V).

        Args:
            groups: What `group` returned.
            outputs: (G, T', N, V) of each item.
            masses: (G, N, T'), the logarithm of the sum of the exponentials of the logits, very
                negative where nothing is allowed. So groups that a query shares can be joined
                under one softmax.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `merge`")


ROUTERS = Registry("a router", "routers", Router)
