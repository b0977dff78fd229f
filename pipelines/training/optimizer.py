"""Builds the optimizer and sets its learning rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from pipelines.experiment.loop_options import LoopOptions
from recsys_attn.backend.sparse_gradients import whole
from recsys_attn.optimizers import LazyAdagrad, LazyAdam, RowWiseAdagrad, Split
from recsys_attn.optimizers.clipping import clip_by_global_norm

_TABLES = {
    "lazy_adam": LazyAdam,
    "lazy_adagrad": LazyAdagrad,
    "row_wise_adagrad": RowWiseAdagrad,
}
_ROW_L2 = 3.0
_DENSE = {
    "adam": keras.optimizers.Adam,
    "adagrad": keras.optimizers.Adagrad,
    "sgd": keras.optimizers.SGD,
}


def make_optimizer(
    options: LoopOptions, variables: Sequence[keras.Variable], encoder: OwnRate | None = None
) -> keras.optimizers.Optimizer:
    """A row-wise optimizer for the tables and Adam for the rest, or one of Keras' for everything.

    Args:
        options: Training options.
        variables: The trainable variables of a model, for which it is built.
        encoder: Those with a learning rate of their own, none of them of a table.
    """
    optimizer = _optimizer(options, variables, encoder)
    optimizer.build(variables)
    return optimizer


def _optimizer(
    options: LoopOptions, variables: Sequence[keras.Variable], encoder: OwnRate | None
) -> keras.optimizers.Optimizer:
    decay, clip = options.weight_decay or None, options.clip_norm
    dense = with_whole_gradients(_DENSE.get(options.optimizer, keras.optimizers.Adam))
    if encoder is not None:
        dense = with_own_rate(
            dense, encoder.variables, encoder.learning_rate / options.learning_rate
        )
    rest = dense(options.learning_rate, weight_decay=decay)
    if options.optimizer not in _DENSE:
        tables = _TABLES[options.optimizer](
            options.embeddings_learning_rate or options.learning_rate,
            weight_decay=decay,
            l2=(_ROW_L2 if options.embeddings_l2 is None else options.embeddings_l2) or None,
        )
        if any(map(tables.is_table, variables)):
            return Split(embeddings=tables, rest=rest, global_clipnorm=clip)
    rest.largest_norm = clip
    return rest


def with_whole_gradients(kind: Any) -> Any:
    """Returns an optimizer's class that adds up the lookups of each row before its step.

    With a `largest_norm` it clips by the norm of all gradients, of all replicas together: Keras'
    own clips those of each replica. State and name are those of `kind`.

    Args:
        kind: The class of an optimizer of Keras.
    """

    class Optimizer(kind):
        largest_norm: float | None = None

        def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
            grads = whole(grads, trainable_variables)
            if self.largest_norm:
                grads = clip_by_global_norm(grads, self.largest_norm)
            super().apply(grads, trainable_variables)

    Optimizer.__name__ = kind.__name__
    return Optimizer


def kind_of(optimizer: keras.optimizers.Optimizer) -> str:
    """A description of an optimizer; equal descriptions keep the same slots."""
    split = isinstance(optimizer, Split)
    parts = [optimizer.embeddings, optimizer.rest] if split else [optimizer]
    with_l2 = [" with `embeddings_l2`" if getattr(part, "l2", None) else "" for part in parts]
    return " and ".join(type(p).__name__ + l2 for p, l2 in zip(parts, with_l2, strict=True))


def whole_table_l2(options: LoopOptions) -> float:
    """The `embeddings_l2` that is a penalty of the loss; row-wise optimizers apply it by row."""
    return (options.embeddings_l2 or 0.0) if options.optimizer in _DENSE else 0.0


class LearningRate:
    """Scales the learning rates of all parts of an optimizer."""

    def __init__(self, optimizer: keras.optimizers.Optimizer, options: LoopOptions) -> None:
        self._share: float | None = None
        self._parts: list[tuple[Any, float]] = [(optimizer, options.learning_rate)]
        if isinstance(optimizer, Split):
            tables = options.embeddings_learning_rate or options.learning_rate
            self._parts = [
                (optimizer.embeddings, tables),
                (optimizer.rest, options.learning_rate),
            ]

    def set(self, share: float) -> None:
        """Scales the learning rates from the next step on."""
        if share != self._share:
            for part, rate in self._parts:
                part.learning_rate = rate * share
            self._share = share


class OwnRate(NamedTuple):
    """Variables with a learning rate of their own."""

    variables: Sequence[keras.Variable]
    learning_rate: float


def with_own_rate(kind: Any, members: Sequence[keras.Variable], ratio: float) -> Any:
    """Returns an optimizer's class in which the steps of some variables are `ratio` times as long.

    `learning_rate(variable) = ratio * learning_rate`, also of weight decay; so every schedule keeps
    the ratio. State and name are those of `kind`.

    Args:
        kind: The class of an optimizer of Keras.
        members: The variables.
        ratio: The factor.
    """
    ids = frozenset(map(id, members))

    class Optimizer(kind):
        weight_decay: Any

        def build(self, variables: Sequence[keras.Variable]) -> None:
            super().build(variables)
            self._ratios = tuple(ratio if id(v) in ids else 1.0 for v in variables)

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            super().update_step(gradient, variable, learning_rate * self._ratio(variable))

        def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
            decay = self.weight_decay
            if decay is None:
                return
            for factor in {1.0, ratio}:
                self.weight_decay = decay * factor
                super()._apply_weight_decay([v for v in variables if self._ratio(v) == factor])
            self.weight_decay = decay

        def _ratio(self, variable: Any) -> float:
            return self._ratios[self._get_variable_index(variable)]

    Optimizer.__name__ = kind.__name__
    return Optimizer
