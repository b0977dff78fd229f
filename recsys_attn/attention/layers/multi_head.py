"""Attention of several heads, with projections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from recsys_attn.attention.core.head_layout import broadcast_batch
from recsys_attn.attention.layers.call_arguments import checked_shapes, masks_of_call
from recsys_attn.attention.layers.context_heads import beside_context, context_heads_of
from recsys_attn.attention.layers.head_counts import (
    head_count,
    head_sizes_of,
    key_head_of_each,
    key_heads_to_keep,
    size_pair,
)
from recsys_attn.attention.layers.head_pruning import slice_heads, take_heads
from recsys_attn.attention.layers.heads import Heads
from recsys_attn.attention.mechanisms.base import Mechanism
from recsys_attn.blocks import activations
from recsys_attn.checks import require_bool
from recsys_attn.initializers import repeated, scaled
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class MultiHeadAttention(Layer):
    """Multi-head attention: each head attends its own projection of the inputs.

    `output = concat_n(attention_n(Q W_Q^n, K W_K^n, V W_V^n)) W_O + b_O`

    The parts decide which kind of attention it is: the mechanism (with score, pattern and
    weighting), the gate and the disagreement.

    Sources: Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762; grouped
    queries: Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from
    Multi-Head Checkpoints", EMNLP 2023, arXiv 2305.13245; context (pseudo-self attention): Ziegler
    et al., 2019, arXiv 1908.06938.

    Args:
        num_heads: Number of heads N; or a pair `[N, K]` for grouped queries, in which N / K heads
            of queries share one of the K heads of keys and values. Fewer make a smaller layer and a
            smaller cache of keys and values; 1 is multi-query attention. Heads computed as many.
        head_dim: Size of a head H, independent of the model's width; or a pair `[H, V]`, the size
            of queries and keys and that of values. Raise H for short sequences: below the number of
            keys, some patterns of weights are impossible (Bhojanapalli et al., ICML 2020, arXiv
            2002.07028).
        mechanism: An instance, a name or a config of `recsys_attn.attention.mechanisms` or
            `recsys_attn.attention.presets`. Defaults to `"transformer"`.
        value: Projection of the values: `"linear"` (the default), `"identity"` (none), or a Keras
            activation after the projection.
        activation: Activation of the projected queries and keys. Defaults to none.
        gate: Weights or switches off heads: of `recsys_attn.attention.gates`. Defaults to none;
            use `"hard_concrete"` to prune heads.
        disagreement: A `Disagreement`, a penalty on similar heads, or its weights, such as
            `{"outputs": 0.1}`. Defaults to none.
        use_bias: Whether projections have biases. Defaults to True.

    Call arguments:
        query: (B, T, E).
        value: (B, S, D). None for self-attention, in which `key_mask` and `key_positions` default
            to those of the queries.
        key: (B, S, D). Defaults to `value`.
        query_mask: (B, T), False for padded queries, whose heads are zero.
        value_mask, key_mask: (B, S), False for padded keys, which no query attends.
        attention_mask: (B, T, S) or (B, N, T, S), False for pairs that are not allowed.
        attention_bias: (B, T, S) or (B, N, T, S), added to the scores.
        query_positions, key_positions: (B, T) and (B, S), integers. Default to 0 ... S-1 for the
            keys and the last T of them for the queries.
        return_weights: Whether to return the weights too.
        context, context_mask: (B, M, C) and (B, M), M more keys with projections of their own, such
            as the scenario and the user, which every query attends whatever the pattern. A score
            with positions puts them at the place of each query.
        mask: (B, T), Keras' own mask of the query in self-attention; replaced by `query_mask`.

    One of the two batches, of queries or of keys, may be 1: many candidates share one history
    without a copy of it.

    Returns:
        (B, T, E), and with `return_weights` also (B, N, T, S), with a context (B, N, T, M + S), or
        the `SparseWeights` or `SummaryWeights` of a fast mechanism, for `dense_weights`.

    Raises:
        TypeError: The mechanism does not support one of the masks, the bias or the positions.
        ValueError: A size is not positive, a name is unknown, or `return_weights` is True and the
            mechanism makes no weights.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import MultiHeadAttention, Dense, scores, patterns
    >>> events = keras.random.normal((2, 7, 16))
    >>> transformer_xl = Dense(
    ...     scores.Dot(scale=True, query_bias=True) + scores.RelativeDot(128, scale=True),
    ...     patterns.Causal(),
    ... )
    >>> tuple(MultiHeadAttention(4, 8, transformer_xl)(events).shape)
    (2, 7, 16)
    """

    # Set before `build`: the start does not belong to the config, as the weights are saved.
    kernel_initializer: str | Config = "glorot_uniform"  # of the projections
    initial_gain = 1.0  # of values and output; set before `build` by a block with such a residual

    def __init__(
        self,
        num_heads: int | Sequence[Any],
        head_dim: int | Sequence[int],
        mechanism: Any = "transformer",
        *,
        value: str = "linear",
        activation: Any = None,
        gate: Any = None,
        disagreement: Any = None,
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_bool("use_bias", use_bias)
        self.supports_masking = True  # the Keras masks of the inputs become arguments
        self.key_heads = key_head_of_each("num_heads", num_heads)
        self.num_heads = len(self.key_heads)
        self.num_key_heads = max(self.key_heads) + 1
        self.head_dim, self.value_dim = head_sizes_of("head_dim", head_dim)
        self.heads = Heads(mechanism, gate, disagreement, dtype=self.dtype_policy)
        self._require_sizes_that_fit(value)
        self.value = value
        name = "linear" if value == "identity" else value
        self.value_activation = activations.function("value", name, "identity")
        self.activation = activations.function("activation", activation)
        self.use_bias = use_bias
        self.context_heads: Any = None

    def _require_sizes_that_fit(self, value: str) -> None:
        if self.mechanism.shares_query_and_key and self.num_key_heads != self.num_heads:
            raise ValueError(
                f"{type(self.mechanism).__name__} makes queries and keys with one projection here, "
                "so they have equally many heads. "
                f"Received: num_heads={[self.num_heads, self.num_key_heads]}"
            )
        if value == "identity":
            self.mechanism.require_one_projection("a layer with value='identity'")
        if value == "identity" and self.value_dim != self.head_dim:
            raise ValueError(
                "With value='identity' the values have the width of the input, so `head_dim` is "
                f"one number. Received: head_dim={[self.head_dim, self.value_dim]}"
            )

    @property
    def mechanism(self) -> Mechanism:
        return self.heads.mechanism

    def __call__(
        self, query: Any, value: Any = None, key: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        self.mechanism.require_own_sequence(query, value, key)
        return super().__call__(query, value, key, *args, **kwargs)

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
        context_shape: Shape | None = None,
    ) -> None:
        value_shape = value_shape or query_shape
        key_shape = key_shape or value_shape
        self.build_shapes = (query_shape, value_shape, key_shape, context_shape)
        shapes = {"query": query_shape, "key": key_shape, "value": value_shape}
        widths = {name: _width(name, shape) for name, shape in shapes.items()}
        if self.mechanism.shares_query_and_key and widths["query"] != widths["key"]:
            raise ValueError(
                f"{type(self.mechanism).__name__} makes queries and keys with one projection here, "
                "so `query` and `key` must have the same width; project one of them first, or "
                "choose parts that do not share it. "
                f"Received: query.shape={query_shape}, key.shape={key_shape}"
            )
        self._layout = self._head_layout()
        self._projected = self._names_with_projection()
        sizes = [math.prod(self._layout[name]) for name in self._projected]
        self._ends = np.cumsum(sizes)[:-1].tolist()  # in the product of all kernels
        self._kernels = {
            name: self._projection(name, widths[name], size)
            for name, size in zip(self._projected, sizes, strict=True)
        }
        self._value_size = widths["value"] if self.value == "identity" else self.value_dim
        self._kernels["output"] = self._projection(
            "output", self.num_heads * self._value_size, widths["query"]
        )
        several = self.mechanism.projections
        self.heads.build(
            (*query_shape[:2], self.num_heads, several * self.head_dim),
            (*key_shape[:2], self.num_heads, self._layout["key"][1]),
            (*value_shape[:2], self.num_heads, several * self._value_size),
            query_shape,
        )
        if context_shape is not None:
            self.context_heads = context_heads_of(self, self._value_size, context_shape)

    def _projection(self, name: str, size: int, units: int) -> tuple[Any, Any]:
        gain = self.initial_gain if name in ("value", "output") else 1.0
        initializer: Any = scaled(self.kernel_initializer, gain)
        if name != "output" and self.mechanism.projections > 1:
            initializer = repeated(initializer, self._layout[name][0], self.mechanism.projections)
        kernel = self.add_weight(
            shape=(size, units), initializer=initializer, name=f"{name}_kernel"
        )
        if not self.use_bias:
            return kernel, None
        return kernel, self.add_weight(shape=(units,), initializer="zeros", name=f"{name}_bias")

    def _head_layout(self) -> dict[str, tuple[int, int]]:
        """Number and size of the heads of each input."""
        several = self.mechanism.projections
        return {
            "query": (self.num_heads, several * self.head_dim),
            "key": (self.num_key_heads, several * self.head_dim + self.mechanism.unary_size),
            "value": (self.num_key_heads, several * self.value_dim),
        }

    def _names_with_projection(self) -> list[str]:
        """Names of the inputs that have a projection."""
        shared = self.mechanism.shares_query_and_key
        uses = {"query": self.mechanism.uses_query, "key": self.mechanism.uses_key}
        names = ["query"] if shared else [name for name, used in uses.items() if used]
        return names if self.value == "identity" else [*names, "value"]

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        return_weights: bool = False,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Any:
        mechanism = self.heads.mechanism
        if return_weights:
            mechanism.require_weights("`return_weights`", on_request=True)
        values = query if value is None else value
        keys = values if key is None else key
        if value is None and key is None:
            query_mask = mask if query_mask is None else query_mask
            key_mask = query_mask if key_mask is None and value_mask is None else key_mask
            key_positions = query_positions if key_positions is None else key_positions
        masks = masks_of_call(
            mechanism,
            self.num_heads,
            (query, keys, values),
            value_mask,
            key_mask,
            query_mask=query_mask,
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            query_positions=query_positions,
            key_positions=key_positions,
        )
        heads = self.project(query, values, key)
        heads, masks = beside_context(self, heads, masks, context, context_mask)
        output, weights = self.heads(*heads, query, masks=masks, return_weights=return_weights)
        output = self.join(output)
        return (output, weights) if return_weights else output

    def project(
        self, query: Tensor, value: Tensor, key: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries (B, T, N, H), keys (B, S, N, H) and values (B, S, N, V)."""
        query, key, value = self.project_once(query, value, key)
        return query, self.at_queries(key), self.at_queries(value)

    def at_queries(self, heads: Tensor) -> Tensor:
        """Repeats each head of keys or values for its queries: (B, S, K, H) -> (B, S, N, H)."""
        if heads.shape[2] == self.num_heads:
            return heads
        return ops.take(heads, np.array(self.key_heads), axis=2)

    def project_once(
        self, query: Tensor, value: Tensor, key: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Projects queries, keys and values; those that heads share are projected once.

        It is one product if they are one tensor.
        """
        key = value if key is None else key
        inputs = {"query": query, "key": key, "value": value}
        projected = dict(zip(self._projected, self._products(inputs), strict=True))
        if self.heads.mechanism.shares_query_and_key:
            same = key is query
            projected["key"] = projected["query"] if same else self._product(key, "query")
        heads = [
            self.activation(self._per_head(projected[name], name))
            if name in projected
            # Their content is not used, but their number is.
            else ops.zeros((*ops.shape(inputs[name])[:2], self.num_heads, self.head_dim))
            for name in ("query", "key")
        ]
        if self.value == "identity":
            return (*heads, ops.repeat(value[:, :, None], self.num_heads, axis=2))
        return (*heads, self.value_activation(self._per_head(projected["value"], "value")))

    def _products(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        """Multiplies each input by its kernel, or one common input by all kernels at once."""
        names = self._projected
        others = [name for name in names if inputs[name] is not inputs[names[0]]]
        if len(names) < 2 or others:
            return [self._product(inputs[name], name) for name in names]
        kernels, biases = zip(*[self._kernels[name] for name in names], strict=True)
        product = ops.matmul(inputs[names[0]], ops.concatenate(kernels, axis=1))
        if self.use_bias:
            product = product + ops.concatenate(biases, axis=0)
        return ops.split(product, self._ends, axis=-1)

    def _product(self, x: Tensor, name: str) -> Tensor:
        kernel, bias = self._kernels[name]
        product = ops.matmul(x, kernel)
        return product if bias is None else product + bias

    def _per_head(self, x: Tensor, name: str) -> Tensor:
        return ops.reshape(x, (*ops.shape(x)[:2], *self._layout[name]))

    def join(self, output: Tensor) -> Tensor:
        """Projects the outputs of the heads: (B, T, N, V) -> (B, T, E)."""
        size = self.num_heads * self._value_size
        return self._product(ops.reshape(output, (*ops.shape(output)[:2], size)), "output")

    @property
    def computed_heads(self) -> int:
        """Number of computed heads, for `prune_heads`."""
        return self.num_heads

    def without_heads(self, keep: Sequence[int]) -> MultiHeadAttention:
        """Returns an unbuilt copy with some of the heads; `prune_heads` sets its weights."""
        key_heads = key_heads_to_keep(self.key_heads, keep)
        num_heads = head_count([key_heads.index(self.key_heads[head]) for head in keep])
        smaller = type(self).from_config({**self.get_config(), "num_heads": num_heads})
        take_heads(smaller.mechanism, keep)
        return smaller

    def slice_heads(
        self, weight: Any, value: np.ndarray, shape: Shape, keep: Sequence[int]
    ) -> np.ndarray:
        """Returns the part of a weight that belongs to some of the heads."""
        shared = [part for name in ("key", "value") for part in self._kernels.get(name, ())]
        shared += [] if self.context_heads is None else self.context_heads.weights
        if any(weight is part for part in shared):
            key_heads = key_heads_to_keep(self.key_heads, keep)
            return slice_heads(value, shape, self.num_key_heads, key_heads)
        return slice_heads(value, shape, self.num_heads, keep)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        (query, key, value), return_weights = checked_shapes(self, self.num_heads, args, kwargs)
        batch = broadcast_batch(query[0], broadcast_batch(key[0], value[0]))
        output = keras.KerasTensor((batch, query[1], query[-1]), dtype=self.compute_dtype)
        if not return_weights:
            return output
        context = kwargs.get("context")
        if context is not None and key[1] is not None:
            key = (key[0], key[1] + context.shape[1], *key[2:])
        return output, self.mechanism.weights_spec((batch, *query[1:]), (batch, *key[1:]))

    def get_config(self) -> Config:
        heads = self.heads.get_config()
        return {
            **super().get_config(),
            "num_heads": head_count(self.key_heads),
            "head_dim": size_pair(self.head_dim, self.value_dim),
            "gate": heads["gate"],
            "disagreement": heads["disagreement"],
        }


def _width(name: str, shape: Shape) -> int:
    if len(shape) != 3 or shape[-1] is None:
        raise ValueError(
            f"`{name}` must have 3 axes (batch, positions, width) and a known width. "
            f"Received: {name}.shape={tuple(shape)}"
        )
    return shape[-1]
