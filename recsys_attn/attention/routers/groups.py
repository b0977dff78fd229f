"""Groups of queries and keys."""

from __future__ import annotations

from typing import Any, NamedTuple

from recsys_attn.tensors import Tensor


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
        query_index: (G or 1, N or 1, T'), indices of the queries in the sequence, for weights. None
            if they are the positions.
        key_index: (G or 1, N or 1, S').
        query_times: (G or 1, N or 1, T'), of a call with times; None for one without.
        key_times: (G or 1, N or 1, S').
        way_back: Data for `merge`.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    query_positions: Tensor | None = None
    key_positions: Tensor | None = None
    allowed: Tensor | None = None
    bias: Tensor | None = None
    query_index: Tensor | None = None
    key_index: Tensor | None = None
    query_times: Tensor | None = None
    key_times: Tensor | None = None
    way_back: Any = None
