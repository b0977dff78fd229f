"""The softmax with a sink."""

from __future__ import annotations

import numpy as np
from keras import ops

from recsys_attn.attention.weightings.base import WEIGHTINGS, Weighting, heads_of
from recsys_attn.attention.weightings.softmax import NEVER
from recsys_attn.tensors import Shape, Tensor


@WEIGHTINGS.register("attention_sink")
class AttentionSink(Weighting):
    """A softmax with a learned logit c of each head n that takes a share and has no value.

    `weights[s] = exp(logits[s]) / (exp(c_n) + sum_j exp(logits[j]))`

    The weights sum to less than 1: a query to which no key is similar gets almost nothing, where a
    softmax must give its whole weight to some key. c starts at 0; with `trainable=False` it stays
    there. Computed in float32; the weights of a query that may attend no key are zero.

    Sources: with c = 0, the "zero sink": Xiao et al., "Efficient Streaming Language Models with
    Attention Sinks", ICLR 2024, arXiv 2309.17453; learned: OpenAI, "gpt-oss-120b & gpt-oss-20b
    Model Card", 2025, arXiv 2508.10925.

    Call arguments:
        logits: (B, N, T, S).
        allowed: Booleans that broadcast to the logits, False for pairs that do not count.

    Returns:
        Weights of the shape of the logits.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.weightings import AttentionSink
    >>> logits, allowed = np.array([[[[0.0, 5.0]]]]), np.array([True, False])
    >>> np.asarray(AttentionSink()(logits, allowed)).tolist()
    [[[[0.5, 0.0]]]]
    """

    def build(self, logits_shape: Shape) -> None:
        self.sink = self.add_weight(
            shape=(heads_of(logits_shape),), initializer="zeros", name="sink", autocast=False
        )

    def call(self, logits: Tensor, allowed: Tensor | None = None) -> Tensor:
        logits = ops.cast(logits, "float32")
        if allowed is not None:
            logits = logits + NEVER * ops.cast(ops.logical_not(allowed), "float32")
        sink = ops.expand_dims(ops.cast(self.sink, "float32"), (1, 2))
        # `initial`: an empty batch has no maximum otherwise.
        most = ops.max(logits, axis=-1, keepdims=True, initial=-np.inf)
        most = ops.stop_gradient(ops.maximum(most, sink))
        shares = ops.exp(logits - most)
        total = ops.sum(shares, axis=-1, keepdims=True) + ops.exp(sink - most)
        return ops.cast(shares / total, self.compute_dtype)
