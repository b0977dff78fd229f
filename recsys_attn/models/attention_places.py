"""The attention of a model by its place: encoder, target attention, interaction, gate."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from recsys_attn.attention.core.watching import HeadsCall, watch_heads
from recsys_attn.attention.mechanisms.base import Mechanism
from recsys_attn.embeddings import example_inputs
from recsys_attn.layer import layers_in
from recsys_attn.models.ranking import RankingModel


class AttentionPlace(NamedTuple):
    """A place of attention in a model.

    Attributes:
        kind: `"encoder"`, `"target_attention"`, `"interaction"` or `"gate"`; `"attention"` in a
            tower of another class than `Tower`.
        history: Name of the history of the first two; empty for the others.
        number: 1 for the first call at the place, 2 for the next layer or block.
    """

    kind: str
    history: str = ""
    number: int = 1

    def __str__(self) -> str:
        """Returns the name for a table, such as `encoder 2 of history`."""
        words = [self.kind.replace("_", " ")]
        if self.kind not in ("target_attention", "gate") or self.number > 1:
            words.append(str(self.number))
        return " ".join([*words, "of", self.history] if self.history else words)


@contextmanager
def watch_attention(
    model: RankingModel, visit: Callable[[AttentionPlace, HeadsCall], HeadsCall]
) -> Iterator[None]:
    """Calls `visit` with the place and the `HeadsCall` of each attention of one call of a model.

    Args:
        model: The model that is called inside, once.
        visit: Returns the call to go on with, as for `watch_heads`.

    Raises:
        RuntimeError: As for `watch_heads`, if the model has attention.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import autoint
    >>> from recsys_attn.models.attention_places import watch_attention
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> features = (Categorical("user", "context", size=9), Categorical("item", size=7))
    >>> schema, layers = Schema(features, (Task("click"),)), {"num_layers": 2}
    >>> model = autoint(schema, width=4, interaction=layers)
    >>> seen = []
    >>> def visit(place, call):
    ...     seen.append((str(place), tuple(call.weights.shape)))
    ...     return call
    >>> with watch_attention(model, visit):
    ...     _ = model({"user": np.array([3]), "item": np.array([[2, 4, 5]])})
    >>> seen
    [('interaction 1', (3, 2, 2, 2)), ('interaction 2', (3, 2, 2, 2))]
    """
    places, counts = _places(model.tower), dict[AttentionPlace, int]()

    def numbered(call: HeadsCall) -> HeadsCall:
        place = places[id(call.mechanism)]
        counts[place] = counts.get(place, 0) + 1
        return visit(place._replace(number=counts[place]), call)

    attends = any(isinstance(layer, Mechanism) for layer in layers_in(model.tower))
    with watch_heads(numbered) if attends else nullcontext():
        yield


def head_layers(model: RankingModel) -> dict[AttentionPlace, Any]:
    """Returns the layer at each place with several heads, those of `gate` left out.

    Raises:
        ValueError: The heads of a place have no layer of their own, of which some can be removed.

    >>> from recsys_attn.models import autoint
    >>> from recsys_attn.models.attention_places import head_layers
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> features = (Categorical("user", "context", size=9), Categorical("item", size=7))
    >>> schema, one = Schema(features, (Task("click"),)), {"num_heads": 2, "num_layers": 1}
    >>> model = autoint(schema, width=4, interaction=one)
    >>> {str(place): layer.num_heads for place, layer in head_layers(model).items()}
    {'interaction 1': 2}
    """
    layers = [layer for layer in layers_in(model.tower) if hasattr(layer, "without_heads")]
    owners = {id(layer.heads.mechanism): layer for layer in layers if hasattr(layer, "heads")}
    by_place: dict[AttentionPlace, Any] = {}

    def visit(place: AttentionPlace, call: HeadsCall) -> HeadsCall:
        if place.kind != "gate" and call.output.shape[2] > 1:
            by_place[place] = owners.get(id(call.mechanism))
        return call

    with watch_attention(model, visit):
        model(example_inputs(model.schema))
    several = collections.Counter(map(id, by_place.values()))
    wrong = [p for p, layer in by_place.items() if layer is None or several[id(layer)] > 1]
    if wrong:
        raise ValueError(
            "Heads can be removed from a layer of their own, which stands in one place. Received: "
            f"{', '.join(map(str, wrong))}"
        )
    return by_place


def interaction_fields(model: RankingModel) -> tuple[str, ...]:
    """Returns the names of the fields that attend each other, in their order.

    They are those of `Tower.field_names`.

    >>> from recsys_attn.models import autoint
    >>> from recsys_attn.models.attention_places import interaction_fields
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> interaction_fields(autoint(Schema((item, seen), (Task("click"),))))
    ('item', 'history.seen')
    """
    names: tuple[str, ...] = model.tower.field_names(model.embedding)
    return names


def _places(tower: Any) -> dict[int, AttentionPlace]:
    """Returns the place of each layer of a tower by its identity."""
    # The last place of a layer counts; a tower of another class has the first one only.
    parts = [
        (AttentionPlace("attention"), tower),
        (AttentionPlace("interaction"), getattr(tower, "interaction", None)),
        (AttentionPlace("gate"), getattr(tower, "head", None)),
    ]
    for name, history in getattr(tower, "histories", {}).items():
        parts.append((AttentionPlace("target_attention", name), history))
        parts.append((AttentionPlace("encoder", name), getattr(history, "encoder", None)))
    return {id(layer): place for place, part in parts for layer in layers_in(part)}
