"""The mean of the logits of several networks, from which each of them learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_number, require_sizes, unknown_name
from recsys_attn.layer import Layer
from recsys_attn.masked_mean import mean_where
from recsys_attn.models.building_blocks import TaskHeads
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class AveragedHeads(Layer):
    """Logits that are the mean of those of several networks, with self-distillation.

    `z = mean_k z_k`, `z_k = w_k . x_k + b_k`; in training, the loss of each task gets
    `factor * sum_k mean_rows(H(sigmoid(z), sigmoid(z_k)))` with the cross-entropy H, in which the
    mean z is constant: the networks learn from each other. It is added as Keras' `add_loss`, for
    all rows but padding, also those without a label.

    Source: Zhu et al., "FINAL: Factorized Interaction Layer for CTR Prediction", SIGIR 2023.

    Args:
        tasks: Names of the tasks.
        sizes: The sizes of the vectors of the networks, side by side in the input.
        distillation: Factor of the added loss by task. Defaults to none.

    Call arguments:
        vector: `(B, T, D)`, with D the sum of `sizes`.
        row_mask: `(B, T)`, False at padded candidates.

    Returns:
        Dict by task of logits `(B, T)`, in float32.

    Raises:
        ValueError: `sizes` is empty, `distillation` has another task, or a number is out of range.

    Example:

    >>> import keras
    >>> from recsys_attn.models.averaged_heads import AveragedHeads
    >>> head = AveragedHeads(["click"], sizes=(4, 6), distillation={"click": 1.0})
    >>> logits = head(keras.random.normal((2, 3, 10)), training=True)
    >>> tuple(logits["click"].shape), len(head.losses)
    ((2, 3), 2)
    """

    adds_losses = True

    def __init__(
        self,
        tasks: Sequence[str],
        sizes: Sequence[int],
        distillation: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sizes = require_sizes("sizes", sizes)
        if not self.sizes:
            raise ValueError("`sizes` must have that of at least one network. Received: sizes=()")
        self.heads = [TaskHeads(tasks, dtype=self.dtype_policy) for _ in self.sizes]
        self.tasks = self.heads[0].tasks
        self.distillation = dict(distillation or {})
        for task, factor in self.distillation.items():
            if task not in self.tasks:
                raise ValueError(f"`distillation` is by task. {unknown_name(task, self.tasks)}")
            require_number(f"distillation[{task!r}]", factor, least=0)

    def build(self, vector_shape: Shape) -> None:
        if vector_shape[-1] != sum(self.sizes):
            raise ValueError(
                f"The last axis of `vector` must have the sum of `sizes`, {sum(self.sizes)}. "
                f"Received: vector.shape={tuple(vector_shape)}"
            )
        self.built = True

    def call(
        self, vector: Tensor, row_mask: Tensor | None = None, training: bool | None = None
    ) -> dict[str, Tensor]:
        ends = accumulate(self.sizes)
        parts = [vector[..., e - size : e] for e, size in zip(ends, self.sizes, strict=True)]
        by_head = [head(part) for head, part in zip(self.heads, parts, strict=True)]
        logits = {
            task: sum(of_head[task] for of_head in by_head) / len(by_head) for task in self.tasks
        }
        for task, factor in self.distillation.items() if training else ():
            target = ops.stop_gradient(ops.sigmoid(logits[task]))
            for of_head in by_head:
                losses = ops.binary_crossentropy(target, of_head[task], from_logits=True)
                self.add_loss(factor * mean_where(losses, row_mask))
        return logits
