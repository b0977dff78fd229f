"""The base class of routers."""

from __future__ import annotations

from collections.abc import Sequence

from recsys_attn.attention.core.weights import SparseWeights
from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.attention.routers.pair_lists import listed
from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor


class Router(Layer):
    """Splits a sequence into groups, and merges the outputs of the groups.

    `Routed` calls `group` and `merge`, and `shares` where weights are asked for; `Lookup`, for
    cross-attention, calls `look_up`.

    Attributes:
        contract: The promise of each router, for errors.
        default_score: Name of the default score.
        shares_query_and_key: Whether queries and keys have one projection.
        content_based: Whether the groups depend on the tokens, including future ones.
        causal: Whether no group has a key after its query, nor depends on later tokens.
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

    contract = "a masked token displaces no other, and its group says that it is padding"
    default_score = "scaled_dot"
    shares_query_and_key = False
    content_based = False
    causal = False
    has_positions = True

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        pass

    @property
    def depends_on_length(self) -> bool:
        """Whether the length decides if two positions are in one group."""
        return False

    def take_heads(self, keep: Sequence[int]) -> None:
        """Keeps some of the heads of a router that is not built, for `prune_heads`."""

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

    @property
    def has_global_queries(self) -> bool:
        """Whether some queries have all keys, in groups of their own."""
        return False

    def with_global_inputs(
        self, groups: list[Groups], query: Tensor, key: Tensor, value: Tensor
    ) -> list[Groups]:
        """Returns groups in which the global queries and their keys and values are replaced.

        Args:
            groups: The result of `group`.
            query, key: (B, S, N, H).
            value: (B, S, N, V).
        """
        raise NotImplementedError(f"{type(self).__name__} has no global queries")

    def merge(self, groups: list[Groups], outputs: list[Tensor], masses: list[Tensor]) -> Tensor:
        """Returns the output of each token, (B, S, N, V).

        Args:
            groups: The result of `group`.
            outputs: (G, T', N, V) of each item.
            masses: (G, N, T'), the logsumexp of the logits, very negative if no key is allowed.
                With it several groups of a query can be merged under one softmax.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `merge`")

    def shares(self, groups: list[Groups], masses: list[Tensor]) -> list[Tensor | None]:
        """Returns the share of each group in the merged output of its queries, for weights.

        Args:
            groups, masses: Those of `merge`.

        Returns:
            For each item (G, N or 1, T'), 0 for a row that is no query; or None for ones.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `shares` for weights")

    def pair_weights(
        self,
        batch: Tensor,
        groups: list[Groups],
        weights: list[Tensor],
        shares: list[Tensor | None],
    ) -> SparseWeights:
        """Returns the weights of pairs of a query and a key.

        Args:
            batch: Number of examples B; the groups of an example follow each other.
            groups: The result of `group`, or of `look_up` as a list.
            weights: (G, N, T', S') of each item.
            shares: The result of `shares`, or a None.
        """
        return listed(batch, groups, weights, shares)


ROUTERS = Registry("a router", "routers", Router)
