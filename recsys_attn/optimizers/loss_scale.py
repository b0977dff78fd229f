"""Loss scaling that reads only the rows that have a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.backend.gradients import values_of
from recsys_attn.optimizers.composite_state import HoldsOptimizers
from recsys_attn.tensors import Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class LossScale(HoldsOptimizers, keras.optimizers.LossScaleOptimizer):
    """`keras.optimizers.LossScaleOptimizer` without its look at every row of every table.

    Keras wraps the optimizer of a model in "mixed_float16" by itself, and then asks of each
    number of each gradient whether it is finite, those of rows that have none included. Wrap it
    in this one instead.

    Args:
        inner_optimizer, initial_scale, dynamic_growth_steps, name: Those of Keras.

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
