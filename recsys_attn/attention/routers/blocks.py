"""Blocks of neighbours, with global and random blocks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from recsys_attn.attention.core.head_layout import broadcast_size
from recsys_attn.attention.core.places import length_of
from recsys_attn.attention.patterns.base import Pattern
from recsys_attn.attention.patterns.blocks import block_count
from recsys_attn.attention.routers.base import ROUTERS, Router
from recsys_attn.attention.routers.coverage import require_covered
from recsys_attn.attention.routers.global_tokens import (
    alone_at,
    at_tokens,
    beside,
    token_places,
    token_positions,
    token_queries,
    with_token_outputs,
    with_tokens,
)
from recsys_attn.attention.routers.group_layout import (
    as_groups,
    blocks_of,
    exists,
    joined,
    keys_at,
    looked_up,
    sequence_of,
    taken,
    with_neighbours,
)
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.attention.routers.meeting_blocks import MeetingBlocks
from recsys_attn.attention.routers.random_routes import (
    checked_seed,
    keys_of_plans,
    marks_of_plans,
    plans,
    require_seed_of_each,
)
from recsys_attn.checks import require_not_negative, require_positive
from recsys_attn.tensors import Shape, Tensor


class _Cut(NamedTuple):
    """The tensors to group, with queries and positions (1, ...) in blocks."""

    query: Tensor
    key: Tensor
    value: Tensor
    key_mask: Tensor | None
    positions: Tensor
    total: Tensor  # (B or 1, 1), blocks up to the last event
    tokens: Tensor | None  # (B or 1, G), places of global tokens


@ROUTERS.register("blocks")
class Blocks(Router):
    """Groups queries of block i with keys of blocks `i - before ... i + after`.

    A group also has keys of the first and the last blocks, of some random ones, and of single
    global tokens; queries of the first and the last blocks and of global tokens have all keys. Time
    and memory grow with S. With a pattern inside these blocks the result equals that of `Dense`
    with the pattern:

    - a window: `Routed(Blocks(64), pattern=Local(64))`; `after=0` suffices for causal ones.
    - Longformer: `Routed(Blocks(64, tokens=(0,)), pattern=Local(64) | Global((0,)))`.
    - BigBird: `Routed(Blocks(64, first=1, last=1, random=3))`.

    In `Lookup`, a query finds the blocks of its position, even in a first or a last block; after
    the last event these are the latest events and the edges. Keys have positions too: those outside
    of 0 ... S-1 are in no block.

    A pattern that reaches beyond the blocks is an error, except one that only hides the future
    (`Causal`).

    Sources: Beltagy et al., "Longformer: The Long-Document Transformer", 2020, arXiv 2004.05150;
    Zaheer et al., "Big Bird: Transformers for Longer Sequences", NeurIPS 2020, arXiv 2007.14062.

    Args:
        size: Number of tokens of a block. The last block may be shorter. Raise it for more context
            at a higher cost.
        before: Number of blocks before the own block.
        after: Number of blocks after the own block; 0 suffices for causal patterns.
        first: Number of global blocks at the start.
        last: Number of global blocks at the end.
        random: Number of random blocks for each block, those of the pattern `RandomBlocks`.
        seed: Seed of the random blocks; a list of one for each head gives each its own blocks, as
            in the paper.
        tokens: Positions of global tokens; negative ones count from the last event. For a few of
            them, anywhere: whole global blocks cost more.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Routed
    >>> from recsys_attn.attention.routers import Blocks
    >>> events = keras.random.normal((2, 1000, 4, 8))
    >>> output, _ = Routed(Blocks(64, tokens=(0, -1)))(events, events, events)
    >>> tuple(output.shape)
    (2, 1000, 4, 8)
    """

    def __init__(
        self,
        size: int = 64,
        before: int = 1,
        after: int = 1,
        first: int = 0,
        last: int = 0,
        random: int = 0,
        seed: int | Sequence[int] = 0,
        tokens: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_positive("size", size)
        counts = {"before": before, "after": after, "first": first, "last": last, "random": random}
        for name, count in counts.items():
            require_not_negative(name, count)
        self.size = size
        self.before = before
        self.after = after
        self.first = first
        self.last = last
        self.random = random
        self.seed = checked_seed(seed)
        self.tokens = token_positions(tokens)

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        require_seed_of_each(self.seed, query_shape[2])

    @property
    def depends_on_length(self) -> bool:
        return bool(self.random or self.last or min(self.tokens, default=0) < 0)

    def require_covered(self, pattern: Pattern) -> None:
        blocks = self.before + 1 + self.after + self.first + self.last + self.random
        blocks += len(self.tokens)
        require_covered(pattern, MeetingBlocks(self), self.size, blocks)

    def group(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_mask: Tensor | None,
        key_mask: Tensor | None,
        training: bool | None,
    ) -> list[Groups]:
        length = ops.shape(key)[1]
        present = length_of(key, None, key_mask)
        total = ops.reshape(block_count(present, self.size), (-1, 1))
        positions = blocks_of(ops.arange(length, dtype="int32")[None], self.size)
        tokens = None
        if self.tokens:
            tokens = token_places(self.tokens, ops.reshape(present, (-1, 1)), length)
        cut = _Cut(blocks_of(query, self.size), key, value, key_mask, positions, total, tokens)
        groups = [self._band(cut), *([self._edges(cut)] if self.first or self.last else [])]
        if tokens is not None:
            groups.append(token_queries(query, key, value, key_mask, tokens))
        return groups

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
        present = ops.ones(ops.shape(key)[:2], "bool") if key_mask is None else key_mask
        standing = ops.where(exists(key_positions, ops.shape(key)[1]), key_positions, -1)
        total = block_count(length_of(key, standing, key_mask), self.size)[..., 0]
        block = query_positions // self.size
        route, counts = self._route(block, total, self.before, self.after)
        places = route[..., None] * self.size + ops.arange(self.size, dtype="int32")
        places = ops.where(counts[..., None], places, -1)
        *leading, blocks, size = ops.shape(places)
        places = ops.reshape(places, (*leading, blocks * size))
        if self.tokens:
            present_length = length_of(key, standing, key_mask)[..., 0]
            tokens = token_places(self.tokens, present_length, ops.shape(key)[1])
            places = with_tokens(places, tokens, self.size, route, counts)
        index = keys_at(places, key_positions, present)
        return looked_up(query, key, value, index, query_positions, key_positions)

    def _band(self, cut: _Cut) -> Groups:
        """Groups the queries of every block with the blocks on its route."""
        query, key, _, key_mask, positions, total, tokens = cut
        batch, count = ops.shape(query)[:2]
        present = ops.ones(ops.shape(key)[:2], "bool") if key_mask is None else key_mask
        before, after = self._reach(count)
        block = ops.arange(count, dtype="int32")[None, None]
        # (B or 1, 1, blocks, K); with a plan of each head (B or 1, N, blocks, K)
        route, counts = self._route(block, total[:, None], before, after)
        alone = None if tokens is None else alone_at(tokens[:, None], self.size, route, counts)
        counts = ops.repeat(counts, self.size, axis=-1)
        if alone is not None:
            alone = ops.broadcast_to(alone, (ops.shape(counts)[0], *ops.shape(alone)[1:]))
            counts = ops.concatenate([counts, alone], axis=-1)
        drawn = route[..., before + 1 + after + self.first + self.last :]
        marks = functools.partial(self._met_marks, total=total, drawn=drawn, tokens=tokens)
        keys = functools.partial(self._met_keys, total=total, drawn=drawn, tokens=tokens)
        counts = ops.transpose(counts, (0, 2, 1, 3))  # (B or 1, blocks, N or 1, keys)
        allowed = as_groups(ops.logical_and(_of_batch(marks(present), batch), counts))
        length = ops.shape(key)[1]
        return Groups(
            as_groups(query),
            as_groups(keys(key)),
            as_groups(keys(cut.value)),
            query_positions=as_groups(_of_batch(positions, batch))[:, None],
            key_positions=as_groups(
                _of_batch(marks(ops.arange(length, dtype="int32")[None]), batch)
            ),
            allowed=allowed[:, :, None],
            way_back=(batch, count, total, length, tokens),
        )

    def _met_keys(self, x: Tensor, total: Tensor, drawn: Tensor, tokens: Tensor | None) -> Tensor:
        """(B, S, N, H) -> (B, blocks, keys of a group, N, H)."""
        blocks = blocks_of(x, self.size)
        if isinstance(self.seed, tuple) and self.random:
            along = [self._along(total, blocks, None), keys_of_plans(blocks, drawn)]
            keys = _side_by_side(along)
        else:
            keys = self._along(total, blocks, drawn[:, 0])
        return keys if tokens is None else beside(keys, x, tokens)

    def _met_marks(self, x: Tensor, total: Tensor, drawn: Tensor, tokens: Tensor | None) -> Tensor:
        """(B or 1, S) -> (B or 1, blocks, N or 1, keys of a group)."""
        blocks = blocks_of(x, self.size)
        if not isinstance(self.seed, tuple) or not self.random:
            marks = self._along(total, blocks, drawn[:, 0])
            marks = marks if tokens is None else beside(marks, x, tokens)
            return marks[:, :, None]
        shared = self._along(total, blocks, None)
        far = marks_of_plans(blocks, drawn)
        parts = [shared[:, :, None], far]
        if tokens is not None:
            parts.append(beside(shared[:, :, :0], x, tokens)[:, :, None])
        batch = functools.reduce(broadcast_size, (ops.shape(part)[0] for part in parts))
        _, count, heads, _ = ops.shape(far)
        return ops.concatenate(
            [ops.broadcast_to(p, (batch, count, heads, ops.shape(p)[3])) for p in parts], axis=3
        )

    def _edges(self, cut: _Cut) -> Groups:
        """Groups the queries of the first and the last blocks with all keys."""
        edges = self._edge_blocks(cut.total)
        rows = joined(taken(cut.positions, edges))
        return Groups(
            joined(taken(cut.query, edges)),
            cut.key,
            cut.value,
            query_positions=rows[:, None],
            key_positions=ops.arange(ops.shape(cut.key)[1], dtype="int32")[None, None],
            allowed=None if cut.key_mask is None else cut.key_mask[:, None, None],
        )

    @property
    def has_global_queries(self) -> bool:
        return bool(self.first or self.last or self.tokens)

    def with_global_inputs(
        self, groups: list[Groups], query: Tensor, key: Tensor, value: Tensor
    ) -> list[Groups]:
        _, _, total, _, tokens = groups[0].way_back
        queries = []
        if self.first or self.last:
            queries.append(joined(taken(blocks_of(query, self.size), self._edge_blocks(total))))
        if tokens is not None:
            queries.append(taken(query, tokens))
        replaced = zip(groups[1:], queries, strict=True)
        return [groups[0], *(g._replace(query=q, key=key, value=value) for g, q in replaced)]

    def merge(self, groups: list[Groups], outputs: list[Tensor], masses: list[Tensor]) -> Tensor:
        batch, count, total, length, tokens = groups[0].way_back
        _, *sizes = ops.shape(outputs[0])
        blocks = ops.reshape(outputs[0], (batch, count, *sizes))
        if self.first or self.last:
            edges = ops.reshape(outputs[1], (batch, self.first + self.last, *sizes))
            block = ops.arange(count, dtype="int32")[None]
            place, at_an_end = self._at_an_end(block, total)
            far = taken(edges, ops.where(at_an_end, place, 0))
            blocks = ops.where(at_an_end[..., None, None, None], far, blocks)
        sequence = sequence_of(blocks, length)
        return sequence if tokens is None else with_token_outputs(sequence, outputs[-1], tokens)

    def shares(self, groups: list[Groups], masses: list[Tensor]) -> list[Tensor | None]:
        batch, count, total, length, tokens = groups[0].way_back
        real = ops.ones((1, length))  # 0 for a query that is a token, and behind the last one
        if tokens is not None:
            real = real - ops.cast(at_tokens(tokens, length)[0], "float32")
        real = blocks_of(real, self.size)  # (B or 1, blocks, size)
        block = ops.arange(count, dtype="int32")[None]
        _, at_an_end = self._at_an_end(block, total)
        band = ops.where(at_an_end[..., None], 0.0, real)
        band = ops.broadcast_to(band, (batch, count, self.size))
        shares = [ops.reshape(band, (batch * count, 1, self.size))]
        if self.first or self.last:
            edges = self._edge_blocks(total)
            place, _ = self._at_an_end(edges, total)
            # A block that is both a first and a last one has its output once.
            once = ops.equal(place, ops.arange(self.first + self.last, dtype="int32"))
            once = ops.logical_and(once, exists(edges, count))
            rows = joined(ops.where(once[..., None], taken(real, edges), 0.0))
            shares.append(rows[:, None])
        if tokens is not None:
            shares.append(ops.cast(tokens >= 0, "float32")[:, None])
        return shares

    def _at_an_end(self, block: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the place of blocks among the first and the last ones, and a mask of those."""
        from_end = block - total + self.last
        place = ops.where(block < self.first, block, self.first + from_end)
        last = ops.logical_and(from_end >= 0, from_end < self.last)
        return place, ops.logical_or(block < self.first, last)

    def _reach(self, count: Tensor) -> tuple[int, int]:
        """Returns the blocks before and after, at most as many as exist."""
        if not isinstance(count, int):
            return self.before, self.after
        return min(self.before, count - 1), min(self.after, count - 1)

    def _edge_blocks(self, total: Tensor) -> Tensor:
        """Returns the first and the last blocks (B or 1, first + last); some may not exist."""
        first, last = (ops.arange(number, dtype="int32") for number in (self.first, self.last))
        return ops.concatenate([first + ops.zeros_like(total), total - self.last + last], axis=-1)

    def _route(
        self, block: Tensor, total: Tensor, before: int, after: int
    ) -> tuple[Tensor, Tensor]:
        """Returns the blocks (..., K) for queries of the blocks `block` (...), and a mask of them.

        The band comes first, then the edges and the random blocks. They may overlap, and the band
        may pass the ends; the mask is True for the first occurrence of a block that exists.
        """
        nothing = ops.zeros_like(block + total)[..., None]
        band = block[..., None] + ops.arange(-before, after + 1, dtype="int32")
        route = [band + nothing, self._edge_blocks(total[..., None]) + nothing]
        if self.random:
            drawn = plans(block, total, self.random, self.seed)
            route = [x + ops.zeros_like(drawn[..., :1]) for x in route]
            route.append(drawn + nothing)
        route = ops.concatenate(route, axis=-1)
        place = ops.arange(ops.shape(route)[-1])
        same = ops.equal(route[..., :, None], route[..., None, :])
        again = ops.any(ops.logical_and(same, place[:, None] > place), axis=-1)
        return route, ops.logical_and(exists(route, total[..., None]), ops.logical_not(again))

    def _along(self, total: Tensor, blocks: Tensor, drawn: Tensor | None) -> Tensor:
        """Gathers the route of each block: (B, blocks, size, ...) -> (B, blocks, tokens, ...)."""
        count = ops.shape(blocks)[1]
        parts = [with_neighbours(blocks, *self._reach(count))]
        if self.first or self.last:
            ends = joined(taken(blocks, self._edge_blocks(total)))[:, None]
            parts.append(ops.broadcast_to(ends, (ops.shape(ends)[0], count, *ops.shape(ends)[2:])))
        if self.random and drawn is not None:
            far = taken(blocks, drawn)
            batch, count, drawn_blocks, size, *rest = ops.shape(far)
            parts.append(ops.reshape(far, (batch, count, drawn_blocks * size, *rest)))
        return _side_by_side(parts)

    def take_heads(self, keep: Sequence[int]) -> None:
        if isinstance(self.seed, tuple):
            self.seed = tuple(self.seed[head] for head in keep)


def _of_batch(x: Tensor, batch: Tensor) -> Tensor:
    return ops.broadcast_to(x, (batch, *ops.shape(x)[1:]))


def _side_by_side(parts: list[Tensor]) -> Tensor:
    """Concatenates along axis 2; parts of batch 1 are repeated."""
    if len(parts) == 1:
        return parts[0]
    batch = functools.reduce(broadcast_size, (ops.shape(x)[0] for x in parts))
    return ops.concatenate([ops.broadcast_to(x, (batch, *ops.shape(x)[1:])) for x in parts], axis=2)
