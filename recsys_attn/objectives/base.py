"""The base class of objectives, and their registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

from keras import ops

from recsys_attn.backend.selecting import places_of
from recsys_attn.blocks.norms import has_batch_statistics
from recsys_attn.checks import require_number
from recsys_attn.layer import Layer
from recsys_attn.named_parts import NamedParts
from recsys_attn.objectives.item_losses import ITEM_LOSSES
from recsys_attn.tensors import Tensor

Inputs = Mapping[str, Tensor]
CatalogueLoss: TypeAlias = Annotated[str | dict[str, Any], ITEM_LOSSES.get]  # in a TOML file


class Loss(NamedTuple):
    """A loss of some rows, which adds up over other rows.

    Attributes:
        total: Sum over all predictions, float32.
        count: Number of predictions, float32.
    """

    total: Tensor
    count: Tensor


class Objective(Layer):
    """The objective of a sequence model: a layer from a batch of histories to a loss.

    A subclass implements `call(model, inputs)`, and perhaps `require_fit` and `prepare`.

    Args:
        weight: Factor of the loss in the sum of all objectives.

    Attributes:
        by_row: Whether the loss of a row does not depend on the other rows, so that the rows of a
            batch may be computed in parts.

    Call arguments:
        model: A `SequenceModel`.
        inputs: Dict of ids `(B, S)` by feature name, oldest first and padded behind.
        counts: `(size,)`, how often each item occurs in training, for draws by popularity.

    Returns:
        A `Loss`.

    Raises:
        ValueError: The inputs have not all of `columns`.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import sasrec
    >>> from recsys_attn.objectives import OBJECTIVES
    >>> from recsys_attn.schema import Schema, Sequence
    >>> model = sasrec(Schema((Sequence("item", size=9, max_length=5),), ()), width=4)
    >>> loss = OBJECTIVES["next_item"](loss="softmax")(model, {"item": np.array([[2, 3, 4, 0]])})
    >>> float(loss.count)
    2.0
    """

    by_row = True

    def __init__(self, *, weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_number("weight", weight, above=0)
        self.weight = weight
        self.built = True

    def __call__(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        missing = [column for column in self.columns if column not in inputs]
        if missing:
            raise ValueError(
                f"`inputs` must have the sequences that {type(self).__name__} reads. "
                f"Missing: {missing}. Received: {sorted(inputs)}"
            )
        return self.call(model, inputs, counts)

    def call(self, model: Any, inputs: Inputs, counts: Tensor | None = None) -> Loss:
        raise NotImplementedError(f"{type(self).__name__} must implement `call`")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the sequences that it reads, besides those of the model."""
        return ()

    def require_fit(self, model: Any) -> None:
        """Raises a ValueError if the model cannot learn from it."""

    def prepare(self, model: Any, sizes: Mapping[str, int]) -> None:
        """Makes the weights of the objective itself, which no export has.

        Args:
            model: The model.
            sizes: The number of ids of each sequence, also of those that the model does not see.
        """


OBJECTIVES: NamedParts[type[Objective]] = NamedParts("objective")


def require_causal(model: Any, name: str) -> None:
    """Raises unless a state sees only earlier events, in training too."""
    if not model.is_causal:
        raise ValueError(
            f"The objective {name!r} predicts each event from those before it, and this encoder "
            "sees the later ones too, so it would copy them. Use a causal encoder, such as that of "
            f"'sasrec', or the objective 'masked_item'. Received: model={model.name!r}"
        )
    if has_batch_statistics(model.encoder):
        raise ValueError(
            f"The objective {name!r} predicts each event from those before it, and the statistics "
            "of a batch in this encoder depend on the later ones too. Use norm='layer' in place of "
            "'batch', another activation than 'dice', and 'interest' in place of 'din'. "
            f"Received: model={model.name!r}"
        )


def require_both_directions(model: Any, name: str) -> None:
    """Raises unless the model has a vector for masked events, and sees both sides of them."""
    if model.appends != "mask":
        raise ValueError(
            f"The objective {name!r} hides events and predicts them from both sides, so it needs "
            "an encoder that is not causal, such as that of 'bert4rec'; or use 'next_item'. "
            f"Received: model={model.name!r}"
        )


def item_loss(
    loss: Any,
    model: Any,
    states: Tensor,
    targets: Tensor,
    where: Tensor,
    counts: Tensor | None,
    seed: Any,
) -> Loss:
    """Returns the loss of predicting items from the states at some places.

    Args:
        loss: A member of `ITEM_LOSSES`.
        model: The model.
        states: `(B, S, K)`.
        targets: Items `(B, S)`.
        where: `(B, S)`, True where the prediction counts.
        counts, seed: Of the draws.
    """
    places, weights = places_of(where)
    states = ops.take(ops.reshape(states, (-1, states.shape[-1])), places, axis=0)
    targets = ops.take(ops.reshape(targets, (-1,)), places)
    total = ITEM_LOSSES.get(loss)(model.queries(states), targets, weights, model, counts, seed)
    return Loss(total, ops.sum(weights))
