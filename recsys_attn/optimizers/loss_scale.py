"""Loss scaling for sparse gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.backend.sparse_gradients import values_of
from recsys_attn.optimizers.composite_state import HoldsOptimizers
from recsys_attn.tensors import Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class LossScale(HoldsOptimizers, keras.optimizers.LossScaleOptimizer):
    """`keras.optimizers.LossScaleOptimizer` that reads only rows with a gradient.

    In "mixed_float16" Keras wraps the optimizer in its own class, which checks whole tables for
    finite gradients. Wrap it in this one instead.

    Args:
        inner_optimizer, initial_scale, dynamic_growth_steps, name: As in Keras.

    Example:

    >>> import keras
    >>> from recsys_attn.optimizers import LazyAdam, LossScale, Split
    >>> optimizer = LossScale(Split(LazyAdam(3e-3), keras.optimizers.AdamW(1e-3)))
    >>> round(float(optimizer.learning_rate), 4)
    0.001
    """

    def check_finite(self, grads: Sequence[Any]) -> Tensor:
        values = [values_of(gradient) for gradient in grads if gradient is not None]
        return ops.all(ops.stack([ops.all(ops.isfinite(value)) for value in values]))
