"""Keys and values of a context, beside those of a sequence."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.core.head_layout import broadcast_batch
from recsys_attn.attention.core.masks import Masks
from recsys_attn.checks import require_bool, require_mask_of, require_positive, require_sizes
from recsys_attn.initializers import glorot
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


class ContextHeads(Layer):
    """Projections of a context for pseudo-self attention, `C U_K` and `C U_V`.

    Made by `MultiHeadAttention` when it is called with a `context`.

    Source: Ziegler et al., "Encoder-Agnostic Adaptation for Conditional Language Generation", 2019,
    arXiv 1908.06938.

    Args:
        num_heads: Number of heads of keys and values.
        sizes: Size of keys H and of values V.
        use_bias: Whether the projections have biases.

    Call arguments:
        context: (B, M, C).

    Returns:
        Keys (B, M, N, H) and values (B, M, N, V).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.layers.context_heads import ContextHeads
    >>> keys, values = ContextHeads(2, (4, 3))(keras.random.normal((5, 1, 7)))
    >>> tuple(keys.shape), tuple(values.shape)
    ((5, 1, 2, 4), (5, 1, 2, 3))
    """

    def __init__(
        self, num_heads: int, sizes: tuple[int, int], use_bias: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        require_positive("num_heads", num_heads)
        require_sizes("sizes", sizes)
        require_bool("use_bias", use_bias)
        self.num_heads = num_heads
        self.sizes = sizes
        self.use_bias = use_bias

    def build(self, context_shape: Shape) -> None:
        if len(context_shape) != 3 or None in context_shape[1:]:
            raise ValueError(
                "`context` must have shape (B, M, C) with a known number M of keys and a known "
                f"width C. Received: context.shape={tuple(context_shape)}"
            )
        self.projections = []
        for name, size in zip(("key", "value"), self.sizes, strict=True):
            units = self.num_heads * size
            kernel = self.add_weight(
                shape=(context_shape[2], units), initializer=glorot(1.0), name=f"{name}_kernel"
            )
            bias = None
            if self.use_bias:
                bias = self.add_weight(shape=(units,), initializer="zeros", name=f"{name}_bias")
            self.projections.append((kernel, bias))

    def call(self, context: Tensor) -> tuple[Tensor, Tensor]:
        heads = []
        for (kernel, bias), size in zip(self.projections, self.sizes, strict=True):
            product = ops.matmul(context, kernel)
            product = product if bias is None else product + bias
            heads.append(ops.reshape(product, (*ops.shape(context)[:2], self.num_heads, size)))
        return heads[0], heads[1]


def context_heads_of(layer: Any, value_size: int, shape: Shape) -> ContextHeads:
    """Returns the projections of a context (B, M, C) for a `MultiHeadAttention`."""
    layer.mechanism.require_context()
    sizes = layer.head_dim, value_size
    heads = ContextHeads(layer.num_key_heads, sizes, layer.use_bias, dtype=layer.dtype_policy)
    heads.build(shape)
    return heads


def beside_context(
    layer: Any,
    heads: tuple[Tensor, Tensor, Tensor],
    masks: Masks,
    context: Tensor | None,
    context_mask: Tensor | None,
) -> tuple[tuple[Tensor, Tensor, Tensor], Masks]:
    """Returns queries, keys and values of a `MultiHeadAttention`, and masks, with a context.

    Raises:
        ValueError: The layer is built for a context and there is none, or the other way round.
    """
    if (context is None) != (layer.context_heads is None):
        built = "without" if layer.context_heads is None else "with"
        raise ValueError(
            f"The attention is built {built} a `context`: call it the same way each time, or make "
            f"a new layer. Received: context={'None' if context is None else 'given'}"
        )
    if context is None:
        if context_mask is not None:
            raise ValueError(
                "`context_mask` is the mask of `context`; give both. Received: context=None"
            )
        return heads, masks
    query, key, value = heads
    broadcast_batch(key.shape[0], context.shape[0])
    require_mask_of("context_mask", context_mask, context)
    keys, values = layer.context_heads(context)
    keys, values = layer.activation(keys), layer.value_activation(values)
    masks = masks.behind_context(key, context.shape[1], context_mask)
    key, value = (
        ops.concatenate([ops.cast(layer.at_queries(before), x.dtype), x], axis=1)
        for before, x in ((keys, key), (values, value))
    )
    return (query, key, value), masks
