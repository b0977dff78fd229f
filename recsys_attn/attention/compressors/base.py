"""The base class of compressors."""

from __future__ import annotations

from typing import NamedTuple

from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor


class CompressedKeys(NamedTuple):
    """C summaries of S events.

    Attributes:
        key: (B, C, N, H).
        value: (B, C, N, V).
        key_mask: (B, C), False for summaries of padding only; None if all of them count.
    """

    key: Tensor
    value: Tensor
    key_mask: Tensor | None


class Compressor(Layer):
    """Replaces many keys and values by a few summaries.

    Attributes:
        contract: The promise of each compressor, for errors.
        ordered: Whether the positions of a summary do not depend on the number of events. If they
            do, a summary has no position and there is no causal form.

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

    contract = "masked keys and values do not influence a summary, and it masks empty ones"
    ordered = True

    def build(self, key_shape: Shape, value_shape: Shape) -> None:
        """Creates the weights; the default has none."""

    def compress(
        self, key: Tensor, value: Tensor, key_mask: Tensor | None = None
    ) -> CompressedKeys:
        """Returns summaries of keys (B, S, N, H) and values (B, S, N, V), under `key_mask` (B, S).

        Masked keys and values must not influence a summary.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `compress`")

    @property
    def has_shares(self) -> bool:
        """Whether it implements `shares`."""
        return type(self).shares is not Compressor.shares

    def shares(self, length: Tensor, key_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns the share of each key in each summary, to explain weights of summaries.

        Args:
            length: Number of keys S.
            key_mask: (B, S), or None.

        Returns:
            (B or 1, N or 1, C, S) in float32, and the mask of the summaries. Where a summary is a
            weighted sum of values with one number for each, these are the numbers.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `shares` for weights")

    def count(self, length: int | None) -> int | None:
        """Returns the number of summaries of `length` events; None if it is unknown."""
        raise NotImplementedError(f"{type(self).__name__} must implement `count`")

    def ends(self, summaries: Tensor) -> Tensor:
        """Returns the last position of each of these summaries, counted from 0.

        The events may end before it. Not called if `ordered` is False.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `ends`")


COMPRESSORS = Registry("a compressor", "compressors", Compressor)
