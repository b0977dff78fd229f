"""Blocks of neighbours, with some blocks that everybody meets and some drawn at random."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.patterns.blocks import block_count
from recsys_attn.attention.patterns.random_blocks import random_plan
from recsys_attn.attention.routers.base import Groups, Router
from recsys_attn.attention.routers.layout import (
    as_groups,
    between,
    blocks_of,
    exists,
    keys_at,
    looked_up,
    sequence_of,
    with_neighbours,
)
from recsys_attn.checks import require_not_negative, require_positive
from recsys_attn.tensors import Config, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn", name="routers.Blocks")
class Blocks(Router):
    """Queries of block i meet the keys of blocks `i - before ... i + after`.

    They also meet the first and the last blocks and some random ones, and the queries of the
    first and the last blocks meet everything. Time and memory grow with S. Together with a
    pattern that lies inside these blocks, the result is that of `Dense` with the pattern:

    - a window: `Routed(Blocks(64), pattern=Local(64))`; `after=0` suffices for causal ones.
    - Longformer: `Routed(Blocks(64, first=1), pattern=Local(64) | Global((0,)))`.
    - BigBird: `Routed(Blocks(64, first=1, last=1, random=3))`.

    A query from elsewhere finds the blocks of keys that one at its position would meet, even in a
    first or a last block; after the last event these are the latest events and the edges. Keys are
    told by their positions too: those outside of 0 ... S-1 are in no block.

    Sources: Beltagy et al., "Longformer: The Long-Document Transformer", 2020, arXiv 2004.05150;
    Zaheer et al., "Big Bird: Transformers for Longer Sequences", NeurIPS 2020, arXiv 2007.14062.

    Args:
        size: Number of tokens of a block. The last block may be shorter.
        before: Number of blocks before its own that a query meets.
        after: Number of blocks after its own.
        first: Number of blocks at the start that meet everything.
        last: Number of blocks at the end that meet everything.
        random: Number of random blocks for each block, those of the pattern `RandomBlocks`.
        seed: What the random blocks are drawn from.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Routed
    >>> from recsys_attn.attention.routers import Blocks
    >>> events = keras.random.normal((2, 1000, 4, 8))
    >>> output, _ = Routed(Blocks(64, first=1))(events, events, events)
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
        seed: int = 0,
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
        self.seed = seed

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
        query = blocks_of(query, self.size)
        positions = blocks_of(ops.arange(length, dtype="int32")[None], self.size)
        groups = [self._band(query, key, value, key_mask, positions)]
        if self.first or self.last:
            groups.append(self._edges(query, key, value, key_mask, positions))
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
        count = block_count(ops.shape(key)[1], self.size)
        own = query_positions // self.size
        route, counts = self._route(own, count, self.before, self.after)
        places = route[..., None] * self.size + ops.arange(self.size, dtype="int32")
        places = ops.where(counts[..., None], places, -1)
        *leading, blocks, size = ops.shape(places)
        places = ops.reshape(places, (*leading, blocks * size))
        index = keys_at(places, key_positions, present)
        return looked_up(query, key, value, index, query_positions, key_positions)

    def _band(
        self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None, positions: Tensor
    ) -> Groups:
        """The queries of every block against the blocks on its route."""
        batch, count = ops.shape(query)[:2]
        present = ops.ones(ops.shape(key)[:2], "bool") if key_mask is None else key_mask
        before, after = self._reach(count)
        route, counts = self._route(ops.arange(count, dtype="int32"), count, before, after)
        drawn = route[:, before + 1 + after + self.first + self.last :]
        counts = ops.repeat(counts, self.size, axis=1)
        met = self._along(drawn, blocks_of(present, self.size))
        allowed = as_groups(ops.logical_and(met, counts))
        rows, columns = (
            as_groups(ops.broadcast_to(x, (batch, *ops.shape(x)[1:])))
            for x in (positions, self._along(drawn, positions))
        )
        return Groups(
            as_groups(query),
            as_groups(self._along(drawn, blocks_of(key, self.size))),
            as_groups(self._along(drawn, blocks_of(value, self.size))),
            query_positions=rows[:, None],
            key_positions=columns[:, None],
            allowed=allowed[:, None, None],
            way_back=(batch, count, ops.shape(key)[1]),
        )

    def _edges(
        self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None, positions: Tensor
    ) -> Groups:
        """The queries of the first and the last blocks against all keys."""
        return Groups(
            self._take_edges(query),
            key,
            value,
            query_positions=self._take_edges(positions)[:, None],
            key_positions=ops.arange(ops.shape(key)[1], dtype="int32")[None, None],
            allowed=None if key_mask is None else key_mask[:, None, None],
        )

    def merge(self, groups: list[Groups], outputs: list[Tensor], masses: list[Tensor]) -> Tensor:
        batch, count, length = groups[0].way_back
        _, *sizes = ops.shape(outputs[0])
        blocks = ops.reshape(outputs[0], (batch, count, *sizes))
        if len(outputs) > 1:
            edges = ops.reshape(outputs[1], (batch, self.first + self.last, *sizes))
            first = _smaller(self.first, count)
            last = _smaller(self.last, count - first)
            blocks = ops.concatenate(
                [
                    between(edges, 0, first),
                    between(blocks, first, count - last),
                    between(edges, self.first + self.last - last, self.first + self.last),
                ],
                axis=1,
            )
        return sequence_of(blocks, length)

    def _reach(self, count: Tensor) -> tuple[int, int]:
        """Blocks before and after, without those that cannot exist."""
        if not isinstance(count, int):
            return self.before, self.after
        return min(self.before, count - 1), min(self.after, count - 1)

    def _edge_blocks(self, count: Tensor) -> Tensor:
        """The first and the last blocks (first + last,); some do not exist in a short sequence."""
        first, last = (ops.arange(number, dtype="int32") for number in (self.first, self.last))
        return ops.concatenate([first, last - self.last + count])

    def _take_edges(self, blocks: Tensor) -> Tensor:
        """(B, blocks, size, ...) -> (B, (first + last) * size, ...); others for the missing."""
        batch, count, size, *rest = ops.shape(blocks)
        edges = ops.clip(self._edge_blocks(count), 0, count - 1)
        tokens = (self.first + self.last) * size
        return ops.reshape(ops.take(blocks, edges, axis=1), (batch, tokens, *rest))

    def _route(self, own: Tensor, count: Tensor, before: int, after: int) -> tuple[Tensor, Tensor]:
        """The blocks (..., K) that queries of the blocks `own` (...) meet, and which of them count.

        The band comes first, then the edges and the random blocks. They may overlap, and the band
        reaches beyond the ends: a block counts where it exists and is met for the first time.
        """
        own = own[..., None]
        met = [own + ops.arange(-before, after + 1, dtype="int32")]
        if self.first or self.last:
            met.append(ops.zeros_like(own) + self._edge_blocks(count))
        if self.random:
            plan = random_plan(count, self.random, self.seed)
            drawn = ops.take(plan, ops.clip(own[..., 0], 0, count - 1), axis=0)
            met.append(ops.where(exists(own, count), drawn, -1))
        met = ops.concatenate(met, axis=-1)
        place = ops.arange(ops.shape(met)[-1])
        same = ops.equal(met[..., :, None], met[..., None, :])
        again = ops.any(ops.logical_and(same, place[:, None] > place), axis=-1)
        return met, ops.logical_and(exists(met, count), ops.logical_not(again))

    def _along(self, drawn: Tensor, blocks: Tensor) -> Tensor:
        """What each block meets: (B, blocks, size, ...) -> (B, blocks, all on its route, ...)."""
        batch, count, _, *rest = ops.shape(blocks)
        met = [with_neighbours(blocks, *self._reach(count))]
        if self.first or self.last:
            edges = self._take_edges(blocks)[:, None]
            met.append(ops.broadcast_to(edges, (batch, count, *ops.shape(edges)[2:])))
        if self.random:
            rows = ops.arange(batch, dtype="int32")[:, None, None] * count + drawn
            far = ops.take(as_groups(blocks), rows, axis=0)
            met.append(ops.reshape(far, (batch, count, ops.shape(drawn)[1] * self.size, *rest)))
        return ops.concatenate(met, axis=2) if len(met) > 1 else met[0]

    def get_config(self) -> Config:
        names = ("size", "before", "after", "first", "last", "random", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _smaller(number: int, count: Tensor) -> Tensor:
    return min(number, count) if isinstance(count, int) else ops.minimum(number, count)
