"""A tensor that training takes as a constant."""

from __future__ import annotations

import keras
from keras import ops

from recsys_attn.layer import Layer
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class ConstantInTraining(Layer):
    """Returns its inputs, in training without gradient.

    Outside of training the gradient passes, so that relevances by gradients have all that moves an
    output.

    Call arguments:
        inputs: Any shape.

    Returns:
        The inputs.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.blocks.constant_in_training import ConstantInTraining
    >>> ConstantInTraining()(np.ones((1, 2), "float32"), training=True).shape[1]
    2
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return ops.stop_gradient(inputs) if training else inputs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape
