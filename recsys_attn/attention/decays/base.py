"""The base class of decays."""

from __future__ import annotations

from keras import ops

from recsys_attn.attention.core.head_layout import swap_heads
from recsys_attn.layer import Layer
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor

LEAST = -5.0  # the logarithm of the least share, 0.0067: sums of a chunk stay within float32


class Decay(Layer):
    """The share of the past that is left after each event.

    A subclass implements `logarithms`. A share is at least exp(-5) = 0.0067. Everything is
    computed in float32.

    Attributes:
        contract: The promise of each decay, for errors.
        enters: Whether an event enters with the rest, `1 - share`, in place of 1.

    Call arguments:
        key: (B, S, N, H).
        features: (B, N, S, M), those of the keys.
        key_mask: (B, S), False for padding, after which all of the past is left.

    Returns:
        Logarithms of the shares: (B, N, S, 1), or (B, N, S, M) with one of each feature.

    Example:

    >>> from keras import ops
    >>> from recsys_attn.attention import Linear
    >>> from recsys_attn.attention.decays import Decay
    >>> class Half(Decay):
    ...     def logarithms(self, key):
    ...         return ops.log(0.5) + 0 * key[..., :1]
    >>> events = ops.ones((2, 5, 1, 8))
    >>> tuple(Linear(causal=True, decay=Half())(events, events, events)[0].shape)
    (2, 5, 1, 8)
    """

    contract = "the share of a key is finite, and depends on no other key"
    enters = False

    def build(self, key_shape: Shape, features_shape: Shape) -> None:
        """Creates the weights; the default has none."""

    def logarithms(self, key: Tensor) -> Tensor:
        """(B, N, S, H) -> (B, N, S, 1 or M)."""
        raise NotImplementedError(f"{type(self).__name__} must implement `logarithms`")

    def call(self, key: Tensor, features: Tensor, key_mask: Tensor | None = None) -> Tensor:
        logarithms = self.logarithms(ops.cast(swap_heads(key), "float32"))
        logarithms = ops.clip(logarithms, LEAST, 0.0)
        if key_mask is None:
            return logarithms
        real = ops.cast(key_mask, "bool")[:, None, :, None]
        return ops.where(real, logarithms, 0.0)


DECAYS = Registry("a decay", "decays", Decay)


def known_heads(key_shape: Shape) -> int:
    """Returns N of keys (B, S, N, H), for a decay with weights of each head."""
    heads = key_shape[2]
    if heads is None:
        raise ValueError(
            "The number of heads must be known when the layer is built. "
            f"Received: key.shape={tuple(key_shape)}"
        )
    return heads
