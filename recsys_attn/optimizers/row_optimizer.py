"""`RowOptimizer`: reads and writes only the rows of a table that have a gradient."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.backend.sparse_gradients import GradientRows, dense, row_update, rows_at, rows_of
from recsys_attn.checks import require_number
from recsys_attn.optimizers.clipping import clip_by_global_norm, clip_factor
from recsys_attn.optimizers.frozen import AllowsFrozen
from recsys_attn.tensors import Config, Tensor

# The tables of `FeatureEmbedding`, and those of `keras.layers.Embedding`.
TABLES = r"(.*/)?(table_\d+(_to_\d+)?|embeddings)"
_WHOLE = "reads and writes whole tables in each step"
_REFUSED = {
    "use_ema": _WHOLE,
    "gradient_accumulation_steps": _WHOLE,
    "loss_scale_factor": "is not for gradients by lookup; wrap the optimizer in `LossScale`",
}


class RowOptimizer(AllowsFrozen, keras.optimizers.Optimizer):
    """The base class of optimizers for tables: everything but the formula.

    A row of a table is touched if its gradient, the sum over all lookups of the whole batch, is not
    zero. Every other row, and its state, stays the same to the bit. For a variable that is not a
    table the formula applies to all of it, as in Keras.

    On TensorFlow a step reads and writes only the touched rows. On the other backends, and with a
    regularizer of a whole table, the gradient is dense and a step costs the whole table; the result
    is the same. On TensorFlow `keras.layers.Embedding` copies its table for a lookup;
    `FeatureEmbedding` does not. XLA can compile a step, but needs several times as long for the
    unique ids (`benchmarks/optimizers.py`): compile the model with `jit_compile=False`. On a CPU
    every run gives the same bits.

    With `tf.distribute` the rows of all replicas are gathered first: the result, clipping included,
    is that of one device with the whole batch.

    For low precision use the policy `"mixed_bfloat16"`, with tables and slots in float32. In
    `"bfloat16"` they have two to three digits: smaller updates are lost, and `LazyAdam` changes
    nothing.

    Args:
        learning_rate: A float or a `LearningRateSchedule`.
        weight_decay: Decoupled (Loshchilov and Hutter, 2019, arXiv 1711.05101): before the update,
            `row -= learning_rate * weight_decay * row`, of touched rows only.
        l2: Mini-batch aware regularization of tables (Zhou et al., 2018, arXiv 1706.06978,
            section 5.1, equations 4 to 6): `gradient += l2 * row / n_j` for each touched row j,
            after clipping. In the paper n_j is the number of lookups of j in all samples. Here it
            is that in the batches so far that touched j, including this one: regularization is
            strongest for a new row, and weaker in each epoch. It needs the sparse gradients of
            TensorFlow, and keeps one number per row.
        tables: Regular expression for the whole path of a variable that is a table.
        name: Name of the optimizer.
        clipping: At most one of `clipnorm`, `clipvalue` and `global_clipnorm`, as in Keras. They
            act on the gradient of the whole batch.

    Raises:
        ValueError: An argument is out of range; `use_ema` or `gradient_accumulation_steps` is
            given, or a table has a constraint, all of which write whole tables in each step;
            `loss_scale_factor` is given; or `l2` is given without sparse gradients.
    """

    def __init__(
        self,
        learning_rate: Any,
        *,
        weight_decay: float | None = None,
        l2: float | None = None,
        tables: str = TABLES,
        name: str | None = None,
        **clipping: Any,
    ) -> None:
        for argument, reason in _REFUSED.items():
            if clipping.get(argument):
                raise ValueError(
                    f"{type(self).__name__} has no `{argument}`: it {reason}. "
                    f"Received: {argument}={clipping[argument]!r}"
                )
        require_number("weight_decay", weight_decay or 0.0, least=0)
        require_number("l2", l2 or 0.0, least=0)
        if not callable(learning_rate):  # as a schedule is
            require_number("learning_rate", learning_rate, least=0)
        for argument in ("clipnorm", "clipvalue", "global_clipnorm"):
            if clipping.get(argument) is not None:
                require_number(argument, clipping[argument], above=0)
        try:
            re.compile(tables)
        except (re.error, TypeError) as error:
            raise ValueError(
                f"`tables` must be a regular expression: {error}. Received: tables={tables!r}"
            ) from None
        super().__init__(learning_rate, weight_decay=weight_decay, name=name, **clipping)
        self.l2 = l2
        self.tables = tables

    def make_slots(self, variable: keras.Variable, *, table: bool) -> list[keras.Variable]:
        """Creates the state of a variable; for a table, one row for each of its rows."""
        raise NotImplementedError(f"{type(self).__name__} must implement `make_slots`")

    def formula(
        self, gradient: Tensor, value: Tensor, slots: Sequence[Tensor], learning_rate: Tensor
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Returns new values of some rows, or of a whole variable, and of their slots."""
        raise NotImplementedError(f"{type(self).__name__} must implement `formula`")

    def is_table(self, variable: Any) -> bool:
        """Returns whether `tables` matches the variable."""
        return re.fullmatch(self.tables, path_of(variable)) is not None

    def build(self, variables: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._is_table = [self.is_table(variable) for variable in variables]
        self._slots = []
        for variable, table in zip(variables, self._is_table, strict=True):
            if table and getattr(variable, "constraint", None) is not None:
                raise ValueError(
                    "A constraint rewrites the whole table in each step; build the table without "
                    f"one. Received: {path_of(variable)} with {variable.constraint}"
                )
            slots = self.make_slots(variable, table=table)
            if table and self.l2:
                slots.append(self.add_slot(variable, "lookups", column(variable), dtype="float32"))
            self._slots.append(slots)

    def add_slot(
        self,
        variable: keras.Variable,
        name: str,
        shape: Sequence[int],
        initial: float = 0.0,
        dtype: str | None = None,
    ) -> keras.Variable:
        """Creates a state variable for `variable`, of another shape or type."""
        return self.add_variable(
            shape=tuple(shape),
            initializer=keras.initializers.Constant(initial),
            dtype=dtype or variable.dtype,
            name=f"{path_of(variable).replace('/', '_')}_{name}",
        )

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        table, variables = self._is_table[index], [variable, *self._slots[index]]
        rows = rows_of(gradient) if table else None
        if rows is None:
            self._check_lookups(variable, table)
            old = [ops.convert_to_tensor(v) for v in variables]
            gradient = dense(gradient, variable.shape[0])
        else:
            old = [rows_at(v, rows.ids) for v in variables]
            gradient = rows.values
        gradient = ops.cast(gradient, variable.dtype)
        rate = ops.cast(learning_rate, variable.dtype)
        decay = self.weight_decay if self._use_weight_decay(variable) else None
        new = self._updated(gradient, old, rate, decay, rows)
        if table:
            touched = ops.any(ops.not_equal(gradient, 0), other_axes(gradient), keepdims=True)
            new = [ops.where(touched, n, o) for n, o in zip(new, old, strict=True)]
        for v, n in zip(variables, new, strict=True):
            self.assign(v, n if rows is None else row_update(rows.ids, n))

    def _updated(
        self,
        gradient: Tensor,
        old: list[Tensor],
        rate: Tensor,
        decay: float | None,
        rows: GradientRows | None,
    ) -> list[Tensor]:
        """Returns new values of a whole variable and its slots."""
        value, *slots = old
        counts = []
        gradient = self._clipped(gradient)
        if rows is not None and self.l2:
            counts = [slots.pop() + ops.reshape(rows.lookups, (-1, *[1] * len(other_axes(value))))]
            gradient = gradient + self.l2 * value / ops.cast(counts[0], value.dtype)
        if decay:
            value = value - value * decay * rate
        value, new = self.formula(gradient, value, slots, rate)
        return [value, *new, *counts]

    def _clipped(self, gradient: Tensor) -> Tensor:
        if self.clipnorm:
            return gradient * clip_factor(ops.sum(ops.square(gradient)), self.clipnorm)
        if self.clipvalue:
            return ops.clip(gradient, -self.clipvalue, self.clipvalue)
        return gradient

    def _check_lookups(self, variable: Any, table: bool) -> None:
        if table and self.l2:
            raise ValueError(
                "`l2` counts the lookups of each row, and the gradient of "
                f"{path_of(variable)!r} is dense: leave `l2` out on "
                "backends other than TensorFlow, and with a regularizer of the whole table. "
                f"Received: l2={self.l2!r}"
            )

    # Keras would apply both to every row, and before the sum over replicas and lookups.

    def _clip_gradients(self, grads: list[Any]) -> list[Any]:
        if self.global_clipnorm:
            return clip_by_global_norm(grads, self.global_clipnorm)
        return grads

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        pass

    def get_config(self) -> Config:
        config = super().get_config()
        for argument in (*_REFUSED, "ema_momentum", "ema_overwrite_frequency"):
            del config[argument]
        return {**config, "l2": self.l2, "tables": self.tables}


def path_of(variable: Any) -> str:
    """Returns the path of a variable, unique in a model."""
    # With `tf.distribute` Keras passes TensorFlow variables, which have no path.
    return getattr(variable, "path", variable.name).partition(":")[0]


def column(variable: keras.Variable) -> tuple[int, ...]:
    """Returns the shape of one number per row."""
    return (variable.shape[0], *[1] * (len(variable.shape) - 1))


def other_axes(x: Tensor) -> tuple[int, ...]:
    """Returns all axes but the first."""
    return tuple(range(1, len(x.shape)))
