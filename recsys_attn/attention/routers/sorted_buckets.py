"""Groups of the tokens of one bucket, from a sort by bucket and position."""

from __future__ import annotations

from dataclasses import dataclass

from keras import ops

from recsys_attn.attention.patterns.blocks import block_count
from recsys_attn.attention.routers.group_layout import (
    as_groups,
    blocks_of,
    joined,
    take_tokens,
    with_neighbours,
)
from recsys_attn.attention.routers.groups import Groups
from recsys_attn.tensors import Tensor


@dataclass(frozen=True)
class SortedBuckets:
    """Sorts tokens by (bucket, position) and cuts them into chunks.

    A token meets those of its bucket in its own chunk and the previous one; or, with `causal`, the
    last `size` tokens of its bucket, itself included. Where the borders of chunks fall depends on
    all tokens, but not how many tokens of a bucket lie between two of them: so with `causal` no
    later token has an effect.

    Args:
        size: Number of tokens of a chunk.
        buckets: Number of buckets; one more, the last, is for padding.
        rounds: Number of sorts; their groups are one softmax.
        causal: Whether a token meets earlier ones only.
    """

    size: int
    buckets: int
    rounds: int = 1
    causal: bool = False

    def group(self, query: Tensor, key: Tensor, value: Tensor, buckets: Tensor) -> Groups:
        """Groups (B, S, N, H) by their buckets (B, N, rounds, S), int32."""
        length = ops.shape(key)[1]
        ticket = ops.sort(buckets * length + ops.arange(length, dtype="int32"), axis=-1)
        order = ticket % length
        place = ops.cast(ops.argsort(order, axis=-1), "int32")

        positions = self._chunks(order)
        # Bucket 0 is for padding, also that of the last chunk.
        bucket = self._chunks((ticket // length + 1) % (self.buckets + 1))
        rows, columns = self._pairs(positions)
        row_buckets, column_buckets = self._pairs(bucket)
        allowed = ops.logical_and(row_buckets == column_buckets, column_buckets > 0)
        if self.causal:
            ahead = ops.shape(column_buckets)[-1] - self.size
            back = ops.arange(self.size)[:, None] + ahead - ops.arange(ahead + self.size)
            allowed = ops.logical_and(allowed, ops.logical_and(back >= 0, back < self.size))
        return Groups(
            as_groups(self._taken(query, positions)),
            as_groups(self._met(self._taken(key, positions))),
            as_groups(self._met(self._taken(value, positions))),
            query_positions=rows[..., 0],
            key_positions=columns[:, :, 0],
            allowed=allowed,
            bias=self._correction(buckets, place, positions) if self.rounds > 1 else None,
            way_back=(place, positions),
        )

    def merge(self, groups: Groups, output: Tensor, mass: Tensor) -> Tensor:
        """Returns the output of each token (B, S, N, V); see `Router.merge`."""
        place, _ = groups.way_back
        batch, heads, rounds, length = ops.shape(place)
        _, _, _, size = ops.shape(output)
        padded_length = block_count(length, self.size) * self.size
        output = ops.reshape(output, (batch, rounds * padded_length, heads, size))
        output = take_tokens(output, self._places(place))
        output = ops.reshape(output, (batch, rounds, length, heads, size))
        if rounds == 1:
            return output[:, 0]
        shares = self._shares_of_rounds(place, mass)[..., None]
        return ops.sum(shares * ops.cast(output, shares.dtype), axis=1)

    def shares(self, groups: Groups, mass: Tensor) -> Tensor:
        """Returns the share of each group in the output of its queries: (G, N, T')."""
        place, positions = groups.way_back
        batch, heads, rounds, length = ops.shape(place)
        share = self._shares_of_rounds(place, mass)
        share = ops.reshape(share, (batch * rounds, length, heads))
        sorts, chunks, size, _ = ops.shape(positions)
        share = take_tokens(share, ops.reshape(positions, (sorts, chunks * size, heads)))
        real = joined(blocks_of(ops.ones((1, length, 1)), self.size))  # not the end of a last chunk
        share = ops.reshape(share * real, (sorts * chunks, size, heads))
        return ops.transpose(share, (0, 2, 1))

    def _chunks(self, x: Tensor) -> Tensor:
        """(B, N, rounds, S) -> (B * rounds, chunks, size, N)."""
        batch, heads, rounds, length = ops.shape(x)
        x = ops.reshape(ops.transpose(x, (0, 2, 3, 1)), (batch * rounds, length, heads))
        return blocks_of(x, self.size)

    def _taken(self, x: Tensor, positions: Tensor) -> Tensor:
        """(B, S, N, ...) -> (B * rounds, chunks, size, N, ...)."""
        batch, _, heads, *rest = ops.shape(x)
        _, chunks, size, _ = ops.shape(positions)
        flat = ops.reshape(positions, (batch, self.rounds * chunks * size, heads))
        return ops.reshape(take_tokens(x, flat), (*ops.shape(positions), *rest))

    def _met(self, chunks: Tensor) -> Tensor:
        """Returns each chunk with the previous one."""
        alone = ops.shape(chunks)[1]
        return chunks if isinstance(alone, int) and alone == 1 else with_neighbours(chunks, 1, 0)

    def _pairs(self, chunks: Tensor) -> tuple[Tensor, Tensor]:
        """Values of queries and of their keys: (G, N, T', 1) and (G, N, 1, S')."""
        rows, columns = (
            ops.transpose(as_groups(x), (0, 2, 1)) for x in (chunks, self._met(chunks))
        )
        return rows[..., :, None], columns[..., None, :]

    def _correction(self, buckets: Tensor, place: Tensor, positions: Tensor) -> Tensor:
        """Returns minus the logarithm of the number of rounds in which a pair occurs."""
        # One number for bucket and place, or chunk: two differ by less than `width` exactly for
        # pairs that meet.
        if self.causal:
            cell = buckets * (ops.shape(place)[-1] + self.size) + place
            width = self.size
        else:
            cell = buckets * (ops.shape(place)[-1] + 1) + place // self.size
            width = 2
        meetings = 0.0
        for turn in range(self.rounds):
            taken = self._taken(ops.transpose(cell[:, :, turn], (0, 2, 1)), positions)
            rows, columns = self._pairs(taken)
            steps = rows - columns
            meetings += ops.cast(ops.logical_and(steps >= 0, steps < width), "float32")
        return -ops.log(ops.maximum(meetings, 1.0))

    def _places(self, place: Tensor) -> Tensor:
        """Returns the row of each token in the output of all rounds: (B, rounds * S, N)."""
        batch, heads, rounds, length = ops.shape(place)
        # The tokens of a round come after those of the previous rounds.
        padded_length = block_count(length, self.size) * self.size
        place = place + ops.arange(rounds, dtype="int32")[:, None] * padded_length
        return ops.reshape(ops.transpose(place, (0, 2, 3, 1)), (batch, rounds * length, heads))

    def _shares_of_rounds(self, place: Tensor, mass: Tensor) -> Tensor:
        """Returns the share of each round in the output of each token: (B, rounds, S, N)."""
        batch, heads, rounds, length = ops.shape(place)
        if rounds == 1:
            return ops.ones((batch, 1, length, heads))
        padded_length = block_count(length, self.size) * self.size
        mass = ops.transpose(mass, (0, 2, 1))
        mass = ops.reshape(mass, (batch, rounds * padded_length, heads))
        mass = take_tokens(mass, self._places(place))
        return ops.softmax(ops.reshape(mass, (batch, rounds, length, heads)), axis=1)
