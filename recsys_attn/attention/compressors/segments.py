"""Compression to a fixed number of segments."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.compressors.base import COMPRESSORS, CompressedKeys, Compressor
from recsys_attn.attention.compressors.strides import shared_evenly
from recsys_attn.attention.core.head_layout import broadcast_size
from recsys_attn.checks import require_positive, unknown_name
from recsys_attn.tensors import Tensor


@COMPRESSORS.register("segments")
class Segments(Compressor):
    """Each summary is the mean or the maximum of one of C segments of the events.

    The n events of an example that are present are cut as by `numpy.array_split`: into C segments
    of `n // C` consecutive events, the first `n % C` with one more. With at most C events each one
    is its own summary, so this is attention to the events themselves. The borders depend on the
    number of events, so there is no causal form, and summaries have no position.

    Args:
        summaries: Number of summaries C.
        kind: `"mean"` or `"max"`.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Compressed
    >>> from recsys_attn.attention.compressors import Segments
    >>> candidates = keras.random.normal((2, 3, 4, 8))
    >>> history = keras.random.normal((2, 50, 4, 8))
    >>> output, _ = Compressed(Segments(16))(candidates, history, history)
    >>> tuple(output.shape)
    (2, 3, 4, 8)
    """

    ordered = False

    def __init__(self, summaries: int = 64, kind: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_positive("summaries", summaries)
        if kind not in _KINDS:
            raise ValueError(f"`kind` must be the name of a pooling. {unknown_name(kind, _KINDS)}")
        self.summaries = summaries
        self.kind = kind

    def compress(
        self, key: Tensor, value: Tensor, key_mask: Tensor | None = None
    ) -> CompressedKeys:
        if key_mask is None:
            key_mask = ops.ones(ops.shape(key)[:2], "bool")
        runs, sizes = self._runs(key_mask)
        pool = _KINDS[self.kind]
        return CompressedKeys(pool(key, runs, sizes), pool(value, runs, sizes), sizes > 0)

    def _runs(self, key_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the segment of each event (B, S), C for padding, and the sizes (B, C)."""
        present = ops.cast(key_mask, "int32")
        rank = ops.cumsum(present, axis=1) - 1
        number = ops.sum(present, axis=1, keepdims=True)
        size, longer = number // self.summaries, number % self.summaries
        in_longer = longer * (size + 1)
        runs = ops.where(
            rank < in_longer,
            rank // (size + 1),
            longer + (rank - in_longer) // ops.maximum(size, 1),
        )
        sizes = size + ops.cast(ops.arange(self.summaries, dtype="int32") < longer, "int32")
        return ops.where(key_mask, runs, self.summaries), sizes

    def shares(self, length: Tensor, key_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns equal shares of the events of a summary; a maximum has no shares of its own."""
        if key_mask is None:
            key_mask = ops.ones((1, length), "bool")
        runs, sizes = self._runs(key_mask)
        summaries = ops.arange(self.summaries, dtype="int32")
        return shared_evenly(runs[:, None, None] == summaries[:, None]), sizes > 0

    def count(self, length: int | None) -> int | None:
        return self.summaries


def _mean(x: Tensor, runs: Tensor, sizes: Tensor) -> Tensor:
    """(B, S, N, H), (B, S), (B, C) -> (B, C, N, H)."""
    # Half precision would lose small terms of a long sum.
    wide = ops.cast(x, keras.backend.result_type(x.dtype, "float32"))
    total = _of_each_run(ops.segment_sum, wide, runs, sizes)
    return ops.cast(total / ops.cast(ops.maximum(sizes, 1), wide.dtype)[..., None, None], x.dtype)


def _max(x: Tensor, runs: Tensor, sizes: Tensor) -> Tensor:
    highest = _of_each_run(ops.segment_max, x, runs, sizes)
    return ops.where((sizes > 0)[..., None, None], highest, 0)


def _of_each_run(reduce: Any, x: Tensor, runs: Tensor, sizes: Tensor) -> Tensor:
    """(B, S, N, H), (B, S), (B, C) -> (B, C, N, H), where the runs of padding are left out."""
    _, length, heads, size = ops.shape(x)
    # One history may have several masks.
    batch = broadcast_size(ops.shape(x)[0], ops.shape(runs)[0])
    x = ops.broadcast_to(x, (batch, length, heads, size))
    count = ops.shape(sizes)[1]
    cells = runs + ops.arange(batch, dtype="int32")[:, None] * (count + 1)
    reduced = reduce(
        ops.reshape(x, (batch * length, heads * size)),
        ops.reshape(cells, (batch * length,)),
        num_segments=batch * (count + 1),
    )
    return ops.reshape(reduced, (batch, count + 1, heads, size))[:, :count]


_KINDS = {"max": _max, "mean": _mean}
