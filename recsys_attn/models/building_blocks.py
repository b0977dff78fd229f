"""Common parts of the towers of several models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from recsys_attn.backend.dropout import Dropout
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import (
    require_bool,
    require_number,
    require_share,
    require_sizes,
    unknown_name,
)
from recsys_attn.interactions.autoint import AutoInt
from recsys_attn.layer import Layer
from recsys_attn.masked_mean import masked_max, masked_mean
from recsys_attn.multitask.balance import Balance
from recsys_attn.serialization import layer_of, takes
from recsys_attn.tensors import Config, Shape, Tensor

_POOLINGS = {"concatenate": None, "max": masked_max, "mean": masked_mean}


@keras.saving.register_keras_serializable(package="recsys_attn")
class FieldInteraction(Layer):
    """From fields to one vector, by attention between fields, an MLP, both or neither.

    `autoint` alone is AutoInt; with `mlp` it is AutoInt+; `mlp` alone is a plain network; without
    both the result is the embeddings. With `stacked` it is

    `[mlp([e, s * autoint(e)]), e]` with the embeddings e and a learned share s, which starts at 0:

    at its start a plain network and a linear part, which attention then adds to.

    Args:
        autoint: An `AutoInt` layer, for fields of one width.
        mlp: An `Mlp` over the embeddings.
        field_pooling: `"concatenate"` the embeddings; or the `"mean"`, or the `"max"` of each
            channel, of those that are not missing: zeros if all are. These two need fields of one
            width and lose the field of a vector: controls, or for very many fields.
        embedding_dropout: Share of the numbers of the fields dropped in training. Defaults to 0.
        stacked: Whether `mlp` is over the embeddings and the output of `autoint`, and not beside
            it. It needs both.

    Call arguments:
        blocks: List of fields `(B, T, F, E)`, one per width.
        present: List of `(B, T, F)`, False where a value is missing.
        row_mask: `(B, T)`, False at padded candidates.

    Returns:
        `(B, T, D)`, the concatenated outputs.

    Raises:
        ValueError: The fields have several widths, and `autoint` is given or they are pooled; or
            `field_pooling` is unknown, or has no effect beside `autoint` without `mlp`; or one of
            both is missing with `stacked`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.blocks import Mlp
    >>> from recsys_attn.models.building_blocks import FieldInteraction
    >>> blocks, present = [keras.random.normal((2, 3, 5, 4))], [np.ones((2, 3, 5), bool)]
    >>> tuple(FieldInteraction(mlp=Mlp((8,)))(blocks, present).shape)
    (2, 3, 8)
    """

    def __init__(
        self,
        autoint: AutoInt | None = None,
        mlp: Mlp | None = None,
        field_pooling: str = "concatenate",
        embedding_dropout: float = 0.0,
        stacked: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_share("embedding_dropout", embedding_dropout)
        require_bool("stacked", stacked)
        if stacked and (autoint is None or mlp is None):
            raise ValueError(
                "`stacked` puts `mlp` over the output of `autoint`. Give both. "
                f"Received: autoint={autoint!r}, mlp={mlp!r}"
            )
        self.stacked = stacked
        self.dropout = Dropout(embedding_dropout, dtype=self.dtype_policy)
        if field_pooling not in _POOLINGS:
            raise ValueError(
                f"`field_pooling` must be a name. {unknown_name(field_pooling, _POOLINGS)}"
            )
        if field_pooling != "concatenate" and autoint is not None and mlp is None:
            raise ValueError(
                "`field_pooling` is for the embeddings that `mlp` gets, and AutoInt's are "
                "concatenated. Give `mlp`, or leave `field_pooling` out. "
                f"Received: field_pooling={field_pooling!r}, mlp=None"
            )
        self.field_pooling = field_pooling
        self.autoint: Any = None
        self.mlp: Any = None
        if autoint is not None:
            self.autoint = layer_of("autoint", autoint, "field_mask", such_as="AutoInt")
        if mlp is not None:
            self.mlp = layer_of("mlp", mlp, "where", such_as="Mlp")

    def build(self, *shapes: Shape) -> None:
        self.share = None
        if self.stacked:
            self.share = self.add_weight(shape=(), initializer="zeros", name="share")
        self.built = True

    def call(
        self, blocks: list[Tensor], present: list[Tensor], row_mask: Tensor | None = None
    ) -> Tensor:
        if self.autoint is not None and len(blocks) > 1:
            raise ValueError(
                "`autoint` needs fields of one width. Received: widths "
                f"{[block.shape[-1] for block in blocks]}. Give all features the same `width`"
            )
        blocks = [self.dropout(block) for block in blocks]
        outputs = []
        if self.autoint is not None:
            outputs.append(flatten(self.autoint(blocks[0], present[0])))
        if self.share is not None:
            vector, attended = self._vector(blocks, present), outputs.pop()
            both = [vector, attended * ops.cast(self.share, attended.dtype)]
            hidden = self.mlp(ops.concatenate(both, axis=-1), where=row_mask)
            return ops.concatenate([hidden, vector], axis=-1)
        if self.mlp is not None or self.autoint is None:
            vector = self._vector(blocks, present)
            if self.mlp is not None:
                vector = self.mlp(vector, where=row_mask)
            outputs.append(vector)
        return ops.concatenate(outputs, axis=-1) if len(outputs) > 1 else outputs[0]

    def _vector(self, blocks: list[Tensor], present: list[Tensor]) -> Tensor:
        pool = _POOLINGS[self.field_pooling]
        if pool is None:
            return ops.concatenate([flatten(block) for block in blocks], axis=-1)
        if len(blocks) > 1:
            raise ValueError(
                f"field_pooling={self.field_pooling!r} needs fields of one width. Received: widths "
                f"{[block.shape[-1] for block in blocks]}. Give all features the same `width`"
            )
        return flatten(pool(blocks[0], present[0]))

    def get_config(self) -> Config:
        return {**super().get_config(), "embedding_dropout": self.dropout.rate}


@keras.saving.register_keras_serializable(package="recsys_attn")
class TaskHeads(Layer):
    """A tower and a logit per task, over a shared vector or a mixture of experts.

    Args:
        tasks: Names of the tasks.
        units: Hidden units of each task's tower.
        activation: Activation of the towers.
        dropout: Dropout of the towers.
        experts: An `MMoE` or another layer with one output per task, or one for all of them,
            between the vector and the towers, such as `AdaptiveTransfer`.
        added: Whether the last numbers of the vector, one for each task, are terms of the logits,
            as those of `Streams`. With nothing else in the vector, each logit is its term and an
            offset.
        joint: A layer from the logits of all tasks `(B, T, tasks)` to others of that shape, such as
            `ProbabilityChain`. Defaults to none.
        balance: Factor of the penalty on experts that are used unequally, see `Balance`. Defaults
            to 0: none.

    Call arguments:
        vector: `(B, T, D)`.
        row_mask: `(B, T)`, False at padded candidates.
        return_gates: Whether to return the gates of the experts too.

    Returns:
        Dict by task of logits `(B, T)`, in float32, and with `return_gates` also a dict by task
        of gates `(B, T, experts)`.

    Raises:
        ValueError: `return_gates` is True or `balance` is given, and there are no experts or no
            gates.

    Example:

    >>> import keras
    >>> from recsys_attn.models.building_blocks import TaskHeads
    >>> logits = TaskHeads(["click", "buy"], units=(8,))(keras.random.normal((2, 3, 5)))
    >>> {task: tuple(logit.shape) for task, logit in logits.items()}
    {'click': (2, 3), 'buy': (2, 3)}
    """

    def __init__(
        self,
        tasks: Sequence[str],
        units: Sequence[int] = (),
        activation: str = "relu",
        dropout: float = 0.0,
        experts: keras.layers.Layer | None = None,
        added: bool = False,
        joint: keras.layers.Layer | None = None,
        balance: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True  # a normalisation before it has the mask of the candidates
        require_bool("added", added)
        self.added = added
        if isinstance(tasks, str) or not isinstance(tasks, Sequence) or not tasks:
            raise ValueError(f"`tasks` must be a list of names. Received: tasks={tasks!r}")
        self.tasks = tuple(tasks)
        self.units = require_sizes("units", units)
        self.activation = activation
        require_share("dropout", dropout)
        self.dropout = dropout
        self.experts: Any = None
        if experts is not None:
            self.experts = layer_of("experts", experts, "where", such_as="MMoE")
        self.joint: Any = None
        if joint is not None:
            self.joint = layer_of("joint", joint, "where", such_as="ProbabilityChain")
        require_number("balance", balance, least=0)
        self.balance = Balance(balance, dtype="float32") if balance else None
        if self.balance is not None and not self.returns_gates:
            raise ValueError(
                "`balance` makes the shares of experts equal: it needs `experts` whose gates are "
                f"weights, such as MMoE with a softmax. Received: balance={balance}"
            )
        self._towers = {
            task: Mlp(self.units, activation=activation, dropout=dropout, dtype=self.dtype_policy)
            for task in (self.tasks if self.units else ())
        }
        # Sigmoid and cross-entropy need more precision than bfloat16.
        self._logits = {task: keras.layers.Dense(1, dtype="float32") for task in self.tasks}

    @property
    def returns_gates(self) -> bool:
        return getattr(self.experts, "returns_gates", False)

    @property
    def same_rows(self) -> bool:
        """Whether all tasks must have labels in the same rows."""
        return getattr(self.joint, "same_rows", False)

    @property
    def falls(self) -> bool:
        """Whether no task is more probable than the one before."""
        return getattr(self.joint, "falls", False)

    def build(self, vector_shape: Shape, row_mask_shape: Shape | None = None) -> None:
        self.offsets = None
        if self.added and vector_shape[-1] == len(self.tasks):
            self.offsets = self.add_weight(
                shape=(len(self.tasks),), initializer="zeros", autocast=False, name="offsets"
            )
            self._logits.clear()  # nothing is left for them
        self.built = True

    def call(
        self, vector: Tensor, row_mask: Tensor | None = None, return_gates: bool = False
    ) -> Any:
        outputs = self._with_terms(vector, row_mask, return_gates)
        if self.joint is None:
            return outputs
        logits, *gates = outputs if return_gates else (outputs,)
        stacked = ops.stack([logits[task] for task in self.tasks], axis=-1)
        joint = ops.unstack(self.joint(stacked, where=row_mask), len(self.tasks), axis=-1)
        logits = dict(zip(self.tasks, joint, strict=True))
        return (logits, *gates) if return_gates else logits

    def _with_terms(self, vector: Tensor, row_mask: Tensor | None, return_gates: bool) -> Any:
        if not self.added:
            return self._logits_of(vector, row_mask, return_gates)
        count = len(self.tasks)
        terms = ops.cast(vector[..., -count:], "float32")
        if self.offsets is not None:
            return dict(zip(self.tasks, ops.unstack(terms + self.offsets, axis=-1), strict=True))
        outputs = self._logits_of(vector[..., :-count], row_mask, return_gates)
        logits, *gates = outputs if return_gates else (outputs,)
        logits = {task: logits[task] + terms[..., place] for place, task in enumerate(self.tasks)}
        return (logits, *gates) if return_gates else logits

    def _logits_of(self, vector: Tensor, row_mask: Tensor | None, return_gates: bool) -> Any:
        if return_gates and (self.experts is None or not takes(self.experts, "return_gates")):
            raise ValueError(
                f"`return_gates` needs `experts` with gates. Received: experts={self.experts!r}"
            )
        if self.experts is None:
            mixed = gates = None
        elif return_gates or self.balance is not None:
            mixed, gates = self.experts(vector, return_gates=True, where=row_mask)
            if self.balance is not None:
                counts = getattr(self.experts, "task_counts", None)
                gates = self.balance(gates, where=row_mask, task_counts=counts)
        else:
            mixed, gates = self.experts(vector, where=row_mask), None
        logits = {}
        for index, task in enumerate(self.tasks):
            hidden = vector if mixed is None else _of_task(mixed, index)
            if self.units:
                hidden = self._towers[task](hidden, where=row_mask)
            logits[task] = self._logits[task](hidden)[..., 0]
        if not return_gates:
            return logits
        return logits, {task: _of_task(gates, index) for index, task in enumerate(self.tasks)}

    def get_config(self) -> Config:
        balance = 0.0 if self.balance is None else self.balance.factor
        return {**super().get_config(), "balance": balance}


def _of_task(mixed: Tensor, index: int) -> Tensor:
    """Returns a task's part of `(B, T, tasks, U)`, or the only one."""
    return mixed[..., index if mixed.shape[-2] > 1 else 0, :]


def flatten(fields: Tensor) -> Tensor:
    """`(..., F, E)` to `(..., F * E)`."""
    shape = ops.shape(fields)
    return ops.reshape(fields, (*shape[:-2], fields.shape[-2] * fields.shape[-1]))
