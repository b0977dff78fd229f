"""A decay that an event decides."""

from __future__ import annotations

from typing import Any

from keras import ops

from recsys_attn.attention.decays.base import DECAYS, Decay, known_heads
from recsys_attn.checks import require_bool, require_number
from recsys_attn.initializers import blockwise
from recsys_attn.tensors import Shape, Tensor


@DECAYS.register("gate", channel_gate={"per_channel": True})
class ForgetGate(Decay):
    """`share_t = sigmoid(w_n . k_t + b_n)^(1 / temperature)`, for each head n.

    An event that begins a new interest can let the past go. The papers compute the gate from the
    input of the layer, here it is computed from the key, a projection of it.

    Sources: `ForgetGate(enters=True, temperature=1)`: Peng et al., "Random Feature Attention", ICLR
    2021, arXiv 2103.02143; `ForgetGate(per_channel=True)`, by name `"channel_gate"`: Yang et al.,
    "Gated Linear Attention Transformers with Hardware-Efficient Training", ICML 2024, arXiv
    2312.06635.

    Args:
        per_channel: Whether each feature of the keys has a share of its own. Defaults to False.
        enters: Whether an event enters with `1 - share`, so that the past and the event compete.
            Defaults to False.
        temperature: Defaults to 16: at first 0.96 of the past are left after an event. Lower it for
            a shorter memory.

    Call arguments:
        key: (B, S, N, H).
        features: (B, N, S, M), those of the keys.
        key_mask: (B, S), False for padding.

    Returns:
        Logarithms of the shares: (B, N, S, 1), and with `per_channel` (B, N, S, M).

    Example:

    >>> import keras
    >>> from recsys_attn.attention import Linear
    >>> from recsys_attn.attention.decays import ForgetGate
    >>> events = keras.random.normal((2, 50, 4, 8))
    >>> gated = Linear("elu", causal=True, decay=ForgetGate(per_channel=True))
    >>> tuple(gated(events, events, events)[0].shape)
    (2, 50, 4, 8)
    """

    def __init__(
        self,
        per_channel: bool = False,
        enters: bool = False,
        temperature: float = 16.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_bool("per_channel", per_channel)
        require_bool("enters", enters)
        require_number("temperature", temperature, above=0)
        self.per_channel = per_channel
        self.enters = enters
        self.temperature = temperature

    def build(self, key_shape: Shape, features_shape: Shape) -> None:
        heads, size = known_heads(key_shape), key_shape[3]
        units = features_shape[-1] if self.per_channel else 1
        self.kernel = self.add_weight(
            shape=(heads, size, units),
            initializer=blockwise(heads, axis=0),
            autocast=False,
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(heads, 1, units), initializer="zeros", autocast=False, name="bias"
        )

    def logarithms(self, key: Tensor) -> Tensor:
        kernel, bias = (ops.cast(weight, "float32") for weight in (self.kernel, self.bias))
        logits = ops.einsum("bnsh,nhu->bnsu", key, kernel) + bias
        return ops.log_sigmoid(logits) / self.temperature
