"""Attention pooling: many vectors to one, or to a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from recsys_attn.attention.core.places import after_the_last, compact, in_columns
from recsys_attn.attention.core.weights import dense_weights
from recsys_attn.attention.layers.make_layer import attention_layer
from recsys_attn.checks import require_mask_of, require_positive
from recsys_attn.layer import Layer
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class AttentionPooling(Layer):
    """Attention of learned queries to a set of vectors.

    `output[q] = attention(query_q, inputs, inputs)`

    With the defaults it is the attention of HAN, from words to a sentence or from sentences to a
    document (items to a session, sessions to a user): `softmax_s(query . tanh(W x_s + b))` weights
    the inputs. With `num_queries` and heads it pools by latent queries, as in the Set Transformer:
    several interests of one user.

    Sources: Yang et al., "Hierarchical Attention Networks for Document Classification", NAACL-HLT
    2016; Lee et al., "Set Transformer", ICML 2019, arXiv 1810.00825.

    Args:
        mechanism: An instance, a name or a config of `recsys_attn.attention.mechanisms` or
            `recsys_attn.attention.presets`. Defaults to `"han"`.
        num_queries: Number of learned queries Q. Defaults to None: one query without an axis.
            Raise it for several summaries. For a positional mechanism, all queries stand right
            after the last vector that is present.
        num_heads, head_dim: Number and size of heads, or a pair of each, as in
            `MultiHeadAttention`. Default to None: no projections.

    Call arguments:
        inputs: (..., S, E).
        present: (..., S), False for padding. An empty set gives zeros (without projections), and
            counts as absent at the next level.
        return_weights: Whether to return the weights too.
        mask: Keras' own mask of the inputs; replaced by `present`.

    Returns:
        (..., E), or (..., Q, E) with `num_queries`; and with `return_weights` also (..., S) or
        (..., Q, S), without heads, or (..., N, Q, S) with heads.

    Raises:
        ValueError: `inputs` has no set axis, or `return_weights` is True and the mechanism makes no
            weights.

    Example:

    >>> import keras
    >>> from recsys_attn.attention import AttentionPooling
    >>> sessions = keras.random.normal((2, 3, 5, 16))  # users, sessions, items
    >>> tuple(AttentionPooling()(AttentionPooling()(sessions)).shape)
    (2, 16)
    >>> interests = AttentionPooling("transformer", num_queries=4, num_heads=2, head_dim=8)
    >>> tuple(interests(sessions[:, 0]).shape)
    (2, 4, 16)
    """

    elsewhere: ClassVar = {
        "gate": "it compares heads, so MultiHeadAttention takes it",
        "disagreement": "it compares heads, so MultiHeadAttention takes it",
    }

    def __init__(
        self,
        mechanism: Any = "han",
        num_queries: int | None = None,
        num_heads: int | Sequence[int] | None = None,
        head_dim: int | Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if num_queries is not None:
            require_positive("num_queries", num_queries)
        self.num_queries = num_queries
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.attention = attention_layer(mechanism, num_heads, head_dim, self.dtype_policy)
        self.attention.mechanism.require_distinct_results(num_queries or 1, None, "num_queries")

    def build(self, inputs_shape: Shape) -> None:
        if len(inputs_shape) < 3 or inputs_shape[-1] is None:
            raise ValueError(
                "`inputs` must have shape (..., S, E) with at least one axis before the set and a "
                f"known width E. Received: inputs.shape={tuple(inputs_shape)}"
            )
        width = inputs_shape[-1]
        self.attention.mechanism.require_distinct_results(
            self.num_queries or 1, inputs_shape[-2], "num_queries"
        )
        self.query = None
        # A score of the key alone uses no query.
        if self.attention.mechanism.uses_query:
            self.query = self.add_weight(
                shape=(self.num_queries or 1, width),
                # Not zeros, with which all queries would be equal.
                initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
                name="query",
            )
        self.attention.build((1, self.num_queries or 1, width), (None, inputs_shape[-2], width))

    def call(
        self,
        inputs: Tensor,
        present: Tensor | None = None,
        return_weights: bool = False,
        mask: Tensor | None = None,
    ) -> Any:
        present = mask if present is None else present
        leading, (size, width) = ops.shape(inputs)[:-2], inputs.shape[-2:]
        size = ops.shape(inputs)[-2] if size is None else size
        if return_weights:
            self.attention.mechanism.require_weights("`return_weights`", on_request=True)
        require_mask_of("present", present, inputs)
        if present is not None:
            present = ops.reshape(present, (-1, size))
        query = (
            ops.zeros((1, self.num_queries or 1, width)) if self.query is None else self.query[None]
        )
        keys = ops.reshape(inputs, (-1, size, width))
        keys, present, columns = compact(self.attention.mechanism, keys, present)
        result = self.attention(
            ops.cast(query, self.compute_dtype),
            keys,
            key_mask=present,
            return_weights=return_weights,
            **after_the_last(self.attention.mechanism, query, keys, present),
        )
        output, *weights = result if return_weights else (result,)
        queries = self.num_queries or 1
        weights = [in_columns(dense_weights(part, queries, size), columns) for part in weights]
        restored = [ops.reshape(x, (*leading, *ops.shape(x)[1:])) for x in (output, *weights)]
        if self.num_queries is None:
            restored = [ops.squeeze(x, -2) for x in restored]
        return tuple(restored) if return_weights else restored[0]

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        """Marks an empty set as absent at the next level; there is none above (B, S)."""
        if previous_mask is None or len(previous_mask.shape) < 3 or self.num_queries is not None:
            return None
        return ops.any(previous_mask, axis=-1)

    def compute_output_spec(
        self,
        inputs: Tensor,
        present: Tensor | None = None,
        return_weights: bool = False,
        mask: Tensor | None = None,
    ) -> Any:
        require_mask_of("present", present, inputs)
        queries = () if self.num_queries is None else (self.num_queries,)
        leading = tuple(inputs.shape[:-2])
        shapes = [(*leading, *queries, inputs.shape[-1])]
        if return_weights:
            heads = () if self.num_heads is None else (self.attention.num_heads,)
            shapes.append((*leading, *heads, *queries, inputs.shape[-2]))
        outputs = tuple(keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes)
        return outputs if return_weights else outputs[0]

    def get_config(self) -> Config:
        return {**super().get_config(), "mechanism": serialize(self.attention.mechanism)}
