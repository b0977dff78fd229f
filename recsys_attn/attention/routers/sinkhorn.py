"""Groups of a block and the block that a learned sort puts beside it."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes, per_head, swap_heads
from recsys_attn.attention.core.weights import SparseWeights
from recsys_attn.attention.patterns.blocks import block_count
from recsys_attn.attention.routers.balancing import causal_sinkhorn, sinkhorn
from recsys_attn.attention.routers.base import ROUTERS, Router
from recsys_attn.attention.routers.group_layout import as_groups, blocks_of, sequence_of
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.attention.routers.pair_lists import every_pair
from recsys_attn.checks import require_bool, require_number, require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor

_TINY = 1e-6  # a mixture with a smaller share of real tokens is padding


@ROUTERS.register("sinkhorn")
class Sinkhorn(Router):
    """Groups the queries of a block with its keys and those of the block sorted to its place.

    With psi_i the sum of the keys of block i, for each head:

    `R_i = W_2 relu(W_1 psi_i)`, `P = sinkhorn((R + gumbel noise in training) / temperature)`,
    `sorted keys = P keys`, `sorted values = P values`, over blocks; then one softmax over
    `[sorted block i; block i]`.

    `sinkhorn` alternately normalises rows and columns, which gives a soft permutation. Padding is
    left out: blocks of padding only are not sorted, and a mixture of tokens is weighted by its
    share of real ones. A single block is `Dense`.

    With `causal` psi_i is the sum of the keys of all blocks before i, only these are sorted to
    place i, and the columns are normalised up to each row (`causal_sinkhorn`), so that later
    tokens change nothing; in its own block a token attends up to itself. In the paper the
    columns are normalised over all places, those of later blocks too.

    In `Lookup`, queries attend only the block that is sorted to the front: the paper's SortCut, cut
    after one block.

    Source: Tay et al., "Sparse Sinkhorn Attention", ICML 2020, arXiv 2002.11296.

    Args:
        size: Number of tokens of a block. The last block may be shorter.
        iterations: Number of normalisations of rows and columns; more give a better permutation.
        temperature: Divisor of the logits of the sort; lower it for a harder permutation.
        length: Length of the longest sequence, which sets the largest number of blocks. Defaults to
            the length in `build`.
        causal: Whether tokens attend earlier ones only. Defaults to False.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Routed
    >>> from recsys_attn.attention.routers import Sinkhorn
    >>> events = keras.random.normal((2, 1000, 4, 8))
    >>> output, _ = Routed(Sinkhorn(64))(events, events, events)
    >>> tuple(output.shape)
    (2, 1000, 4, 8)
    """

    content_based = True
    has_positions = False

    def __init__(
        self,
        size: int = 64,
        iterations: int = 8,
        temperature: float = 0.75,
        length: int | None = None,
        causal: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_bool("causal", causal)
        require_positive("size", size)
        require_positive("iterations", iterations)
        if length is not None:
            require_positive("length", length)
        require_number("temperature", temperature, above=0)
        self.size = size
        self.iterations = iterations
        self.temperature = temperature
        self.length = length
        self.causal = causal
        self.noise = keras.random.SeedGenerator()

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        heads, _, size = head_sizes(query_shape, key_shape)
        length = key_shape[1]
        longest = length if self.length is None else self.length
        if longest is None:
            raise ValueError(
                "Sinkhorn has a weight for each block: give it `length`, the longest sequence, "
                f"if the shapes do not have it. Received: key.shape={tuple(key_shape)}"
            )
        self.longest = longest
        self._require_short(length)
        self.hidden_kernel, self.sort_kernel = (
            self.add_weight(
                shape=(heads, size, units),
                initializer=blockwise(heads, axis=0),
                autocast=False,
                name=name,
            )
            for name, units in (
                ("hidden_kernel", size),
                ("sort_kernel", self._most_blocks),
            )
        )

    def _require_short(self, length: int | None) -> None:
        if length is not None and length > self.longest:
            raise ValueError(
                f"Sinkhorn was built for sequences of up to {self.longest}; give it a longer "
                f"`length`. Received: {length} positions"
            )

    def group(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_mask: Tensor | None,
        key_mask: Tensor | None,
        training: bool | None,
    ) -> list[Groups]:
        batch, length = ops.shape(key)[:2]
        key, value, present = self._blocks(key, value, key_mask)
        sort = self._sort(key, present, training)
        share = self._share(sort, present)
        local = ops.broadcast_to(ops.cast(present, "float32")[:, :, None], ops.shape(share))
        real = as_groups(ops.concatenate([share, local], axis=-1))
        allowed = real > _TINY
        pairs = allowed[:, :, None]
        if self.causal:
            place = ops.arange(self.size)
            # All keys of the sorted block are earlier ones.
            causal = ops.arange(-self.size, self.size) <= place[:, None]
            pairs = ops.logical_and(pairs, causal)
        return [
            Groups(
                as_groups(blocks_of(query, self.size)),
                as_groups(ops.concatenate([_mixed(sort, key), key], axis=2)),
                as_groups(ops.concatenate([_mixed(sort, value), value], axis=2)),
                allowed=pairs,
                bias=ops.log(ops.where(allowed, real, 1.0))[:, :, None],
                way_back=(batch, length, sort, present),
            )
        ]

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
        batch, length = ops.shape(key)[:2]
        key, value, present = self._blocks(key, value, key_mask)
        sort = self._sort(key, present, training)
        places = ops.arange(ops.shape(sort)[2], dtype="int32")
        first = ops.argmax(ops.any(present, axis=2), axis=1)  # blocks of padding are not sorted
        first = ops.equal(places, ops.cast(first, "int32")[:, None])
        sort = ops.sum(ops.where(first[:, None, :, None], sort, 0.0), axis=2, keepdims=True)
        share = self._share(sort, present)[:, 0, :, None]
        allowed = share > _TINY
        return Groups(
            query,
            _mixed(sort, key)[:, 0],
            _mixed(sort, value)[:, 0],
            allowed=allowed,
            bias=ops.log(ops.where(allowed, share, 1.0)),
            way_back=(batch, length, sort, present),
        )

    def _blocks(
        self, key: Tensor, value: Tensor, key_mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns keys and values by block, zeros for padding, and the mask."""
        self._require_short(key.shape[1])
        mask = ops.ones(ops.shape(key)[:2], "bool") if key_mask is None else key_mask
        key, value = (
            blocks_of(ops.where(mask[:, :, None, None], x, ops.zeros_like(x)), self.size)
            for x in (key, value)
        )
        return key, value, blocks_of(mask, self.size)

    def _sort(self, key: Tensor, present: Tensor, training: bool | None) -> Tensor:
        """Returns the share of block j at place i: (B, N, blocks, blocks)."""
        total = ops.sum(ops.cast(key, "float32"), axis=2)
        if self.causal:
            total = ops.cumsum(total, axis=1) - total
        hidden = ops.relu(per_head(total, self.hidden_kernel))
        logits = per_head(swap_heads(hidden), self.sort_kernel)
        batch, heads, count, _ = ops.shape(logits)
        # A graph fails here if the sequence is longer than `longest`.
        logits = ops.reshape(logits[..., :count], (batch, heads, count, count))
        logits = ops.cast(logits, "float32")
        if training:
            logits = logits + _gumbel(ops.shape(logits), self.noise)
        some = ops.any(present, axis=2)
        if self.causal:
            place = ops.arange(count)
            earlier = ops.logical_and(some[:, None, None, :], place < place[:, None])
            return causal_sinkhorn(
                logits / self.temperature, earlier, self.iterations, self._most_blocks
            )
        return sinkhorn(
            logits / self.temperature,
            ops.logical_and(some[:, None, :, None], some[:, None, None, :]),
            self.iterations,
        )

    @property
    def _most_blocks(self) -> int:
        return block_count(self.longest, self.size)

    def _share(self, sort: Tensor, present: Tensor) -> Tensor:
        """Returns the share of real tokens in each mixture: (B, places, N, size)."""
        batch, heads, places, count = ops.shape(sort)
        rows = ops.reshape(sort, (batch, heads * places, count))
        real = ops.matmul(rows, ops.cast(present, "float32"))
        real = real / ops.maximum(ops.sum(rows, axis=-1, keepdims=True), _TINY)
        return swap_heads(ops.reshape(real, (batch, heads, places, self.size)))

    def merge(self, groups: list[Groups], outputs: list[Tensor], masses: list[Tensor]) -> Tensor:
        batch, length, _, _ = groups[0].way_back
        _, _, *sizes = outputs[0].shape
        blocks = (batch, block_count(length, self.size), self.size, *sizes)
        return sequence_of(ops.reshape(outputs[0], blocks), length)

    def shares(self, groups: list[Groups], masses: list[Tensor]) -> list[Tensor | None]:
        return [None]

    def pair_weights(
        self,
        batch: Tensor,
        groups: list[Groups],
        weights: list[Tensor],
        shares: list[Tensor | None],
    ) -> SparseWeights:
        """Returns a list of all pairs, since each sorted key is a mixture of keys of all blocks."""
        _, length, sort, present = groups[0].way_back
        heads, places, count = ops.shape(sort)[1:]
        sizes = ops.shape(weights[0])[2:]
        # (B, N, places, queries of a place, keys of a group); `Lookup` has one place
        grouped = ops.reshape(weights[0], (batch, places, heads, *sizes))
        grouped = ops.transpose(grouped, (0, 2, 1, 3, 4))
        mixed = grouped[..., None, : self.size] * ops.cast(sort, grouped.dtype)[..., None, :, None]
        if sizes[-1] != self.size:
            beside = grouped[..., None, self.size :]
            mixed = mixed + beside * ops.eye(count, dtype=mixed.dtype)[:, None, :, None]
        mixed = mixed * ops.cast(present, mixed.dtype)[:, None, None, None]
        pairs = ops.reshape(mixed, (batch, heads, places * sizes[0], count * self.size))
        queries = length if sizes[-1] != self.size else sizes[0]
        # The last block may be padded; so may the keys of no sequence.
        return every_pair(pairs[:, :, :queries, :length])


def _mixed(sort: Tensor, blocks: Tensor) -> Tensor:
    """(B, N, places, blocks) times (B, blocks, size, N, H), block by block."""
    batch, count, size, heads, width = ops.shape(blocks)
    flat = ops.reshape(ops.transpose(blocks, (0, 3, 1, 2, 4)), (batch, heads, count, size * width))
    mixed = ops.matmul(ops.cast(sort, blocks.dtype), flat)
    mixed = ops.reshape(mixed, (batch, heads, ops.shape(sort)[2], size, width))
    return ops.transpose(mixed, (0, 2, 3, 1, 4))


def _gumbel(shape: tuple[Tensor, ...], seed: keras.random.SeedGenerator) -> Tensor:
    uniform = keras.random.uniform(shape, minval=1e-6, maxval=1.0, dtype="float32", seed=seed)
    return -ops.log(-ops.log(uniform))
