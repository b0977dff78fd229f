"""What every compressor has in common."""

from __future__ import annotations

from typing import NamedTuple

from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Config, Shape, Tensor


class CompressedKeys(NamedTuple):
    """C summaries in the place of S events.

    Attributes:
        key: (B, C, N, H).
        value: (B, C, N, V).
        key_mask: (B, C), False for summaries of padding alone; None where all of them count.
    """

    key: Tensor
    value: Tensor
    key_mask: Tensor | None


class Compressor(Layer):
    """Few summaries in the place of many keys and values, so that each query meets only those.

    Attributes:
        ordered: Whether each summary stands for the same positions however many events there are.
            If not, it depends on all of them: it stands nowhere, and nothing of it can be causal.

    Its method `build` takes the shapes of keys and values.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.compressors import CompressedKeys, Compressor
    >>> class EveryOther(Compressor):
    ...     def compress(self, key, value, key_mask=None):
    ...         key_mask = None if key_mask is None else key_mask[:, ::2]
    ...         return CompressedKeys(key[:, ::2], value[:, ::2], key_mask)
    ...     def count(self, length):
    ...         return None if length is None else (length + 1) // 2
    ...     def ends(self, summaries):
    ...         return 2 * summaries
    >>> history = keras.random.normal((2, 5, 4, 8))
    >>> tuple(EveryOther().compress(history, history).key.shape)
    (2, 3, 4, 8)
    """

    ordered = True

    def build(self, key_shape: Shape, value_shape: Shape) -> None:
        """Makes the weights, which a compressor need not have."""

    def compress(
        self, key: Tensor, value: Tensor, key_mask: Tensor | None = None
    ) -> CompressedKeys:
        """The summaries of keys (B, S, N, H) and values (B, S, N, V) that `key_mask` (B, S) keeps.

        Masked keys and values must reach no summary.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `compress`")

    def count(self, length: int | None) -> int | None:
        """Number of summaries of `length` events; None where it is not known."""
        raise NotImplementedError(f"{type(self).__name__} must implement `count`")

    def ends(self, summaries: Tensor) -> Tensor:
        """The last position that each of these summaries, counted from 0, stands for.

        Even if the events end before it; not asked where `ordered` is False.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `ends`")

    def get_config(self) -> Config:
        return super().get_config()  # Keras' own refuses a dtype policy that is an object


COMPRESSORS = Registry("a compressor", "compressors", Compressor)
