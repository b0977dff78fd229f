"""Gates that switch heads, experts or fields off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from recsys_attn.attention.gates.base import GATES, require_known_heads
from recsys_attn.checks import require_not_negative, require_number
from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor

_EPSILON = 1e-6  # the logit of the noise is infinite at 0 and 1


@GATES.register("hard_concrete")
class HardConcrete(Layer):
    """`output = g * heads` with one gate g in [0, 1] per head, which can be exactly 0 or 1.

    In training a gate is random, with one draw per head for the whole batch:

    `g = clip(sigmoid((log u - log(1 - u) + log_alpha) / temperature) (zeta - gamma) + gamma, 0, 1)`

    with u uniform in (0, 1); otherwise it is `clip(sigmoid(log_alpha) (zeta - gamma) + gamma, 0,
    1)`. The loss grows by the penalty times the expected number of heads that are open,

    `sum_n P(g_n > 0)`, `P(g > 0) = sigmoid(log_alpha - temperature log(-gamma / zeta))`

    once per step, even if the layer is called several times. `prune_heads` removes heads with a
    gate of 0 from the trained layer; `recsys_attn.models.prune` those of a whole model, its experts
    and its fields too.

    With `trainable=False` the gates are constants: they are never random and cost no penalty.

    Source: Voita et al., "Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy
    Lifting, the Rest Can Be Pruned", ACL 2019, arXiv 1905.09418; the distribution is of Louizos
    et al., "Learning Sparse Neural Networks through L0 Regularization", ICLR 2018,
    arXiv 1712.01312.

    Args:
        penalty: Loss per open head. Defaults to 0; start with 1e-3 and raise it to remove more
            heads.
        temperature: Spread of the random gates; towards 0 a gate is either open or closed.
        stretch: gamma and zeta, the range before it is clipped to [0, 1].
        initial: Initial log_alpha of all heads. By default gates start open, exactly 1 outside of
            training.
        seed: Seed of the random gates.

    Call arguments:
        heads: (B, T, N, V), the output of each head.
        inputs: (B, T, E), not used.

    Returns:
        (B, T, N, V).

    Example:

    >>> import keras
    >>> from recsys_attn.attention.gates import HardConcrete
    >>> gate = HardConcrete(penalty=1e-3)
    >>> tuple(gate(keras.random.normal((2, 3, 4, 8))).shape)
    (2, 3, 4, 8)
    >>> gate.open_heads().tolist()
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        penalty: float = 0.0,
        temperature: float = 2 / 3,
        stretch: Sequence[float] = (-0.1, 1.1),
        initial: float = 2.5,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_number("penalty", penalty, least=0)
        require_number("temperature", temperature, above=0)
        if not isinstance(stretch, Sequence) or len(stretch) != 2:
            raise ValueError(f"`stretch` must be a list of two. Received: stretch={stretch!r}")
        require_number("stretch[0]", stretch[0], below=0)
        require_number("stretch[1]", stretch[1], above=1)
        require_number("initial", initial)
        if seed is not None:
            require_not_negative("seed", seed)
        self.penalty = penalty
        self.temperature = temperature
        self.stretch = tuple(stretch)
        self.initial = initial
        self.seed = None if seed is None else int(seed)
        self.noise = keras.random.SeedGenerator(self.seed)

    def build(self, heads_shape: Shape, inputs_shape: Shape | None = None) -> None:
        require_known_heads(heads_shape)
        self.log_alpha = self.add_weight(
            shape=(heads_shape[2],),
            initializer=keras.initializers.Constant(self.initial),
            # Not `add_loss`, which counts every call of a shared layer.
            regularizer=self._expected_penalty if self.penalty else None,
            dtype="float32",
            autocast=False,
            name="log_alpha",
        )

    def call(
        self, heads: Tensor, inputs: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        return heads * ops.cast(self.gates(training), heads.dtype)[:, None]

    def gates(self, training: bool | None = None) -> Tensor:
        """Returns the gates (N,), random in training; each call draws new ones."""
        if training and self.trainable:
            return self._random_gates()
        return self._stretched(ops.sigmoid(ops.convert_to_tensor(self.log_alpha)))

    def _random_gates(self) -> Tensor:
        u = keras.random.uniform(
            self.log_alpha.shape, _EPSILON, 1 - _EPSILON, dtype="float32", seed=self.noise
        )
        logit = ops.log(u) - ops.log(1 - u)
        return self._stretched(ops.sigmoid((logit + self.log_alpha) / self.temperature))

    def _stretched(self, gates: Tensor) -> Tensor:
        low, high = self.stretch
        return ops.clip(gates * (high - low) + low, 0.0, 1.0)

    def _expected_penalty(self, log_alpha: Tensor) -> Tensor:
        return self.penalty * ops.sum(self._open_probabilities(log_alpha))

    def _open_probabilities(self, log_alpha: Tensor) -> Tensor:
        low, high = self.stretch
        return ops.sigmoid(log_alpha - self.temperature * math.log(-low / high))

    def open_probabilities(self) -> np.ndarray:
        """Returns the probability of each random gate to be above 0: (N,)."""
        return ops.convert_to_numpy(self._open_probabilities(self.log_alpha))

    def open_heads(self) -> np.ndarray:
        """Returns the indices of the heads with a gate above 0 outside of training."""
        return np.flatnonzero(ops.convert_to_numpy(self.gates()) > 0)

    def compute_output_shape(self, heads_shape: Shape, inputs_shape: Shape | None = None) -> Shape:
        return heads_shape
