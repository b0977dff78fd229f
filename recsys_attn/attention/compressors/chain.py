"""A chain of compressors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from recsys_attn.attention.compressors.base import COMPRESSORS, CompressedKeys, Compressor
from recsys_attn.layer import build_part
from recsys_attn.tensors import Shape, Tensor


@COMPRESSORS.register("chain")
class Chain(Compressor):
    """Applies compressors one after the other: `compress_2(compress_1(K, V))`.

    A convolution followed by a fixed number of segments is memory-compressed attention with a cost
    linear in the length.

    Args:
        compressors: The compressors in their order: instances, names or configs.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.mechanisms import Compressed
    >>> from recsys_attn.attention.compressors import Chain, Convolution, Segments
    >>> history = keras.random.normal((2, 50, 4, 8))
    >>> chain = Chain([Convolution(width=3, stride=3), Segments(7)])
    >>> output, _ = Compressed(chain)(history, history, history)
    >>> tuple(output.shape), chain.count(50)
    ((2, 50, 4, 8), 7)
    """

    def __init__(self, compressors: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(compressors, str) or not isinstance(compressors, Sequence) or not compressors:
            raise ValueError(
                "`compressors` must be a list of at least one compressor, such as "
                f"['convolution', 'segments']. Received: compressors={compressors!r}"
            )
        self.compressors = [
            COMPRESSORS.get(compressor, dtype=self.dtype_policy) for compressor in compressors
        ]
        self.ordered = all(compressor.ordered for compressor in self.compressors)

    def build(self, key_shape: Shape, value_shape: Shape) -> None:
        for compressor in self.compressors:
            build_part(self, "compressor", compressor, key_shape, value_shape)
            count = compressor.count(key_shape[1])
            key_shape = (key_shape[0], count, *key_shape[2:])
            value_shape = (value_shape[0], count, *value_shape[2:])

    def compress(
        self, key: Tensor, value: Tensor, key_mask: Tensor | None = None
    ) -> CompressedKeys:
        summaries = CompressedKeys(key, value, key_mask)
        for compressor in self.compressors:
            summaries = compressor.compress(*summaries)
        return summaries

    @property
    def has_shares(self) -> bool:
        return all(compressor.has_shares for compressor in self.compressors)

    def shares(self, length: Tensor, key_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        total, key_mask = self.compressors[0].shares(length, key_mask)
        for compressor in self.compressors[1:]:
            share, key_mask = compressor.shares(ops.shape(total)[2], key_mask)
            total = ops.matmul(share, total)
        return total, key_mask

    def count(self, length: int | None) -> int | None:
        for compressor in self.compressors:
            length = compressor.count(length)
        return length

    def ends(self, summaries: Tensor) -> Tensor:
        for compressor in reversed(self.compressors):
            summaries = compressor.ends(summaries)
        return summaries
