"""Normalised queries and keys."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from recsys_attn.attention.core.head_layout import head_sizes
from recsys_attn.attention.scores.base import SCORES
from recsys_attn.attention.scores.wrapper import Wrapper
from recsys_attn.checks import unknown_name
from recsys_attn.tensors import Shape, Tensor

_NORMS = {
    "rms": keras.layers.RMSNormalization,
    "layer": lambda **kwargs: keras.layers.LayerNormalization(center=False, **kwargs),
}


@SCORES.register("qk_norm")
class QkNorm(Wrapper):
    """`score = score(norm(q), norm(k))`, with a learned gain of each channel for q and for k.

    `norm(x) = g x / sqrt(mean(x^2) + 1e-6)`, and with `norm="layer"` less the mean of x first

    The length of a query no longer counts, so that logits cannot grow in training until the softmax
    has one key only. The gains start at 1 and are the same in all heads. Positions that turn
    queries and keys go inside, as in the paper's models: `QkNorm("rotary")`.

    Sources: with LayerNorm: Dehghani et al., "Scaling Vision Transformers to 22 Billion
    Parameters", ICML 2023, arXiv 2302.05442; with RMSNorm: Yang et al., "Qwen3 Technical Report",
    2025, arXiv 2505.09388.

    Args:
        score: The score of the normalised queries and keys: an instance, a name or a config.
            Defaults to `"scaled_dot"`.
        norm: `"rms"` (the default) or `"layer"`.

    Call arguments:
        query, key, allowed, query_positions, key_positions: See `Score`.

    Returns:
        Logits (B, N, T, S).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.scores import QkNorm
    >>> history = keras.random.normal((2, 5, 1, 8))
    >>> tuple(QkNorm("rotary")(history, history).shape)
    (2, 1, 5, 5)
    """

    def __init__(self, score: Any = "scaled_dot", norm: str = "rms", **kwargs: Any) -> None:
        super().__init__(score, **kwargs)
        if norm not in _NORMS:
            raise ValueError(f"`norm` is not known. {unknown_name(norm, _NORMS)}")
        self.norm = norm
        # One whose result is not used would have weights without a gradient.
        uses = {"query": self.uses_query, "key": self.uses_key}
        self.norms = {
            name: _NORMS[norm](epsilon=1e-6, dtype=self.dtype_policy, name=f"{name}_norm")
            for name, is_used in uses.items()
            if is_used
        }

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        _, query_size, key_size = head_sizes(query_shape, key_shape)
        for name, size in (("query", query_size), ("key", key_size)):
            if name in self.norms:
                self.norms[name].build((None, None, None, size))
        super().build(query_shape, key_shape)

    def prepared(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        heads = {"query": query, "key": key}
        for name, norm in self.norms.items():
            heads[name] = ops.cast(norm(heads[name]), self.compute_dtype)
        return heads["query"], heads["key"]
