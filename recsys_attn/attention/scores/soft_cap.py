"""Logits within a limit."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.scores.base import SCORES
from recsys_attn.attention.scores.shared_dot import SharedDot
from recsys_attn.attention.scores.wrapper import Wrapper, nested
from recsys_attn.checks import require_number
from recsys_attn.tensors import Tensor


@SCORES.register("soft_cap")
class SoftCap(Wrapper):
    """`score = cap tanh(score / cap)`: logits between -cap and cap, almost unchanged near zero.

    A mask and an `attention_bias` act afterwards. So does a score that is added outside:
    `SoftCap() + Alibi()`.

    Source: Gemma Team, "Gemma 2: Improving Open Language Models at a Practical Size", 2024,
    arXiv 2408.00118.

    Args:
        score: The score inside: an instance, a name or a config. Defaults to `"scaled_dot"`.
        cap: The limit. Defaults to 50, as in Gemma 2; a softmax of logits between -5 and 5 cannot
            leave out one key of many thousands.

    Call arguments:
        query, key, allowed, query_positions, key_positions: See `Score`.

    Returns:
        Logits (B, N, T, S).

    Raises:
        ValueError: `cap` is not positive, or the score inside is `SharedDot`, whose penalty of a
            query's own key would be capped too.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.attention.scores import SoftCap
    >>> query, key = np.ones((1, 1, 1, 1)), np.array([0.0, 1e3]).reshape(1, 2, 1, 1)
    >>> np.asarray(SoftCap("dot", cap=5)(query, key)).tolist()
    [[[[0.0, 5.0]]]]
    """

    def __init__(self, score: Any = "scaled_dot", cap: float = 50.0, **kwargs: Any) -> None:
        super().__init__(score, **kwargs)
        require_number("cap", cap, above=0)
        if any(isinstance(part, SharedDot) for part in nested(self.score)):
            raise ValueError(
                "SoftCap would cap the penalty of SharedDot too, and a query would attend itself. "
                f"Use another score. Received: score={type(self.score).__name__}"
            )
        self.cap = cap

    def changed(self, logits: Tensor) -> Tensor:
        return self.cap * ops.tanh(logits / self.cap)
