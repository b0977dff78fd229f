"""`Split`: one optimizer for the embedding tables, another for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import keras

from recsys_attn.backend.sparse_gradients import whole
from recsys_attn.checks import require_number
from recsys_attn.optimizers.clipping import clip_by_global_norm
from recsys_attn.optimizers.composite_state import HoldsOptimizers
from recsys_attn.optimizers.frozen import AllowsFrozen
from recsys_attn.optimizers.row_optimizer import RowOptimizer, path_of
from recsys_attn.tensors import Config, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Split(HoldsOptimizers, AllowsFrozen, keras.optimizers.Optimizer):
    """Combines an optimizer for embedding tables with one for all other variables.

    Tables are the variables with a path that matches `embeddings.tables`, a regular expression.
    Each part has its own learning rate, decay and clipping. `learning_rate` is the rate of `rest`;
    setting it changes both rates by the same factor, so that callbacks such as `ReduceLROnPlateau`
    act on the whole model.

    Keras' optimizers take the lookups of one row, such as those of a position, for rows of their
    own: `rest` gets gradients in which they are added up.

    Args:
        embeddings: A `RowOptimizer` such as `LazyAdam`.
        rest: A Keras optimizer, or its name.
        global_clipnorm: Largest norm of all gradients together, of tables and of other variables,
            after the sum over lookups and replicas.
        name: Name of the optimizer.

    Raises:
        TypeError: `embeddings` is not a `RowOptimizer`, or `rest` is not an optimizer.
        ValueError: `rest` accumulates gradients or scales the loss, or no variable is a table.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.models import mlp
    >>> from recsys_attn.optimizers import LazyAdam, Split, WarmUp
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> model = mlp(Schema((Categorical("item", size=7),), (Task("click"),)), units=(8,))
    >>> optimizer = Split(
    ...     embeddings=LazyAdam(WarmUp(3e-3, warmup_steps=1000)),
    ...     rest=keras.optimizers.AdamW(1e-3, weight_decay=1e-4),
    ...     global_clipnorm=10.0,
    ... )
    >>> model.compile(optimizer, "mse", jit_compile=False)
    >>> x, y = {"item": np.array([[2, 3, 4]])}, {"click": np.array([[0.0, 1.0, 0.0]])}
    >>> _ = model.fit(x, y, verbose=0)
    >>> int(optimizer.iterations)
    1
    """

    def __init__(
        self,
        embeddings: Any,
        rest: Any,
        *,
        global_clipnorm: float | None = None,
        name: str | None = None,
    ) -> None:
        embeddings, rest = keras.optimizers.get(embeddings), keras.optimizers.get(rest)
        _check_parts(embeddings, rest)
        if global_clipnorm is not None:
            require_number("global_clipnorm", global_clipnorm, above=0)
        super().__init__(0.0, global_clipnorm=global_clipnorm, name=name)
        self.embeddings = embeddings
        self.rest = rest

    @property
    def learning_rate(self) -> Any:
        """The rate of `rest`; setting it multiplies that of `embeddings` by the same factor."""
        return self.rest.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        old = float(self.rest.learning_rate)
        if old == 0:
            raise ValueError(
                "The learning rate of `rest` is 0, so no factor leads from it to another: set "
                "`optimizer.embeddings.learning_rate` and `optimizer.rest.learning_rate`. "
                f"Received: learning_rate={value!r}"
            )
        self.embeddings.learning_rate = float(self.embeddings.learning_rate) * float(value) / old
        self.rest.learning_rate = value

    @property
    def variables(self) -> list[keras.Variable]:
        return [*self._variables, *self.embeddings.variables, *self.rest.variables]

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._is_table = [self.embeddings.is_table(variable) for variable in variables]
        if not any(self._is_table):
            raise ValueError(
                f"No variable is a table: none matches {self.embeddings.tables!r}. Give the "
                "`tables` of `embeddings`, or use `rest` alone. "
                f"Received: {[path_of(v) for v in variables]}"
            )
        for part, mine in self._parts(variables):
            part.build(list(compress(variables, mine)))

    def apply(
        self,
        grads: Sequence[Tensor],
        trainable_variables: Sequence[keras.Variable] | None = None,
    ) -> None:
        variables = (
            self._trainable_variables if trainable_variables is None else trainable_variables
        )
        self.build(variables)
        self._check_variables_are_known(variables)
        grads, variables = self._filter_empty_gradients(grads, variables)
        if self.global_clipnorm:
            grads = clip_by_global_norm(grads, self.global_clipnorm)
        for part, mine in self._parts(variables):
            if any(mine):
                gradients, part_variables = (
                    list(compress(grads, mine)),
                    list(compress(variables, mine)),
                )
                part.apply(
                    whole(gradients, part_variables) if part is self.rest else gradients,
                    part_variables,
                )
        self._iterations.assign_add(1)

    def _parts(
        self, variables: Sequence[Any]
    ) -> list[tuple[keras.optimizers.Optimizer, list[bool]]]:
        """Returns each part with its variables."""
        tables = [self._is_table[self._get_variable_index(variable)] for variable in variables]
        return [(self.embeddings, tables), (self.rest, [not table for table in tables])]

    def finalize_variable_values(self, var_list: Sequence[keras.Variable]) -> None:
        for part, mine in self._parts(var_list):
            part.finalize_variable_values(list(compress(var_list, mine)))

    def get_config(self) -> Config:
        return {
            "name": self.name,
            "embeddings": keras.optimizers.serialize(self.embeddings),
            "rest": keras.optimizers.serialize(self.rest),
            "global_clipnorm": self.global_clipnorm,
        }


def _check_parts(embeddings: Any, rest: Any) -> None:
    if not isinstance(embeddings, RowOptimizer):
        raise TypeError(
            "`embeddings` must be an optimizer of rows, such as LazyAdam or RowWiseAdagrad. "
            f"Received: embeddings={embeddings!r}"
        )
    if isinstance(rest, Split | keras.optimizers.LossScaleOptimizer):
        raise TypeError(
            "`rest` must be an optimizer that holds no other: wrap the Split in LossScale. "
            f"Received: rest={rest!r}"
        )
    if not isinstance(rest, keras.optimizers.Optimizer):
        raise TypeError(
            f"`rest` must be an optimizer of Keras or its name. Received: rest={rest!r}"
        )
    for argument in ("gradient_accumulation_steps", "loss_scale_factor"):
        value = getattr(rest, argument)
        if value is not None:
            raise ValueError(
                f"`rest` must not have `{argument}`: it would not reach the tables. "
                f"Received: {argument}={value!r}"
            )
