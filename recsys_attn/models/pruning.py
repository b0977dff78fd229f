"""Pruning of whole models: heads, experts and fields whose gates are closed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from recsys_attn.attention.gates.hard_concrete import HardConcrete
from recsys_attn.attention.layers.head_pruning import (
    gate_of,
    kept_units,
    prune_heads,
    require_order_free,
)
from recsys_attn.embeddings import example_inputs
from recsys_attn.layer import layers_in
from recsys_attn.models.attention_places import AttentionPlace, head_layers
from recsys_attn.models.building_blocks import FieldInteraction
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.tower import by_width, field_blocks
from recsys_attn.schema import Schema
from recsys_attn.serialization import deserialize, serialize

ENCODERS, TARGETS = "heads of encoders", "heads of target attention"
INTERACTION = "heads of the interaction"
_PLACES = {"encoder": ENCODERS, "target_attention": TARGETS, "interaction": INTERACTION}


class Kept(NamedTuple):
    """The kept units of a place, of all."""

    kept: int
    all: int


def prune(
    model: RankingModel, keep: Mapping[AttentionPlace, Sequence[int]] | None = None
) -> RankingModel:
    """Returns a smaller copy of a trained model, without what its gates have closed.

    Heads and experts are sliced as by `prune_heads`. A closed feature loses its columns in the
    tower, a closed history also its attention and encoder; what no history needs as its query or
    context is removed from the schema and the embedding table. The scores stay the same. The gates
    that are left become constants, so that the copy can be trained on without noise and penalty.

    Source: Voita et al., "Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy
    Lifting, the Rest Can Be Pruned", ACL 2019, arXiv 1905.09418; Louizos et al., "Learning Sparse
    Neural Networks through L0 Regularization", ICLR 2018, arXiv 1712.01312.

    Args:
        model: A model with `HardConcrete` gates, of the option `gates` of the models, or one
            without any for `keep`.
        keep: The heads to keep by their place, of a model without gates; other places stay as they
            are. `head_layers` of `recsys_attn.models.attention_places` has the places.

    Returns:
        A new model; `model.schema` has the features that it needs. At least one feature of the
        candidates stays.

    Raises:
        ValueError: The model has no gates and there is no `keep`, or it has both; `keep` has a
            place without several heads; or what is left depends on what would be
            removed: heads mix (`TalkingHeads`), or the fields or experts that attend have places.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import autoint, prune
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> features = (Categorical("user", "context", size=9), Categorical("item", size=7))
    >>> model = autoint(Schema(features, (Task("click"),)), width=4, gates="hard_concrete")
    >>> _ = model.tower.field_gate.gate.log_alpha.assign([9.0, -9.0])  # item, user
    >>> smaller = prune(model)
    >>> [feature.name for feature in smaller.schema.features]
    ['item']
    >>> smaller.count_params() < model.count_params()
    True
    """
    counts = gate_counts(model)
    if keep is not None:
        if counts:
            raise ValueError(
                "`keep` is for models without gates, and the gates of this one say what it needs. "
                f"Received: keep={dict(keep)}, and gates of {', '.join(counts)}"
            )
        return _with_heads(model, keep)
    if not counts:
        raise ValueError(
            "`model` has no Hard-Concrete gates that would say what it does not need: build it "
            f"with `gates`. Received: {model.name!r}"
        )
    smaller = _with_constant_gates(model)
    if smaller.tower.field_gate is not None:
        smaller = _without_fields(smaller)
    return prune_heads(smaller) if _gated_layers(smaller) else smaller


def _with_heads(model: RankingModel, keep: Mapping[AttentionPlace, Sequence[int]]) -> RankingModel:
    layers = head_layers(model)
    unknown = keep.keys() - layers.keys()
    if unknown:
        raise ValueError(
            f"`keep` must name places with several heads: {', '.join(map(str, layers))}. "
            f"Received: {', '.join(map(str, unknown))}"
        )
    return prune_heads(model, {layers[place]: heads for place, heads in keep.items()})


def gate_counts(model: RankingModel) -> dict[str, Kept]:
    """Returns the numbers of open and of all heads, experts and fields, by place.

    >>> from recsys_attn.models import mmoe
    >>> from recsys_attn.models.pruning import gate_counts
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> schema = Schema((Categorical("item", size=7),), (Task("click"),))
    >>> gate_counts(mmoe(schema, experts={"number": 3}, gates={"experts": "hard_concrete"}))
    {'experts': Kept(kept=3, all=3)}
    """
    tower, counts = model.tower, {}
    fields = (
        None
        if tower.field_gate is None
        else [tower.field_gate.kept[i] for i in _kept_fields(model)]
    )
    gone = [h for name, h in tower.histories.items() if fields is not None and name not in fields]
    histories = list(tower.histories.values())
    places = {
        ENCODERS: [getattr(h, "encoder", None) for h in histories],
        TARGETS: [getattr(h, "history", h) for h in histories],
        INTERACTION: tower.interaction,
        "experts": tower.head,
    }
    not_there = {id(gate) for gate in _gates(gone)}
    for place, parts in places.items():
        if gates := _gates(parts):
            units = sum(len(kept_units(gate)) for gate in gates if id(gate) not in not_there)
            counts[place] = Kept(units, sum(gate.log_alpha.shape[0] for gate in gates))
    if fields is not None:
        counts["fields"] = Kept(len(fields), len(tower.field_gate.kept))
    return counts


def head_counts(
    model: RankingModel, keep: Mapping[AttentionPlace, Sequence[int]]
) -> dict[str, Kept]:
    """Returns the numbers of heads to keep and of all, by place as `gate_counts` does."""
    counts: dict[str, Kept] = {}
    for place, layer in head_layers(model).items():
        every = range(layer.computed_heads)
        name = _PLACES.get(place.kind, "heads")
        number, total = counts.get(name, Kept(0, 0))
        counts[name] = Kept(number + len(keep.get(place, every)), total + len(every))
    return counts


def _gates(part: Any) -> list[Any]:
    return [gate_of(layer) for layer in _gated_layers(part)]


def _gated_layers(part: Any) -> list[Any]:
    """Returns the layers in a part whose heads or experts have gates that can close."""
    layers = {id(layer): layer for layer in layers_in(part) if hasattr(layer, "without_heads")}
    return [layer for layer in layers.values() if gate_of(layer) is not None]


def _kept_fields(model: RankingModel) -> list[int]:
    """Returns the open fields, and the most open one of the candidates if all are closed."""
    gate = model.tower.field_gate
    fields = {int(i) for i in gate.gate.open_heads()}
    of_candidates = [
        i
        for i, name in enumerate(gate.kept)
        if name not in gate.histories and model.schema[name].side == "candidate"
    ]
    needed = of_candidates or list(range(len(gate.kept)))
    if not fields & set(needed):
        chances = gate.gate.open_probabilities()
        fields.add(max(needed, key=lambda i: chances[i]))
    return sorted(fields)


def _with_constant_gates(model: RankingModel) -> RankingModel:
    """Returns a copy whose gates are not trained."""
    copy: RankingModel = deserialize(_constant(serialize(model)))
    copy.set_weights(model.get_weights())
    return copy


def _constant(config: Any) -> Any:
    if isinstance(config, list | tuple):
        return [_constant(value) for value in config]
    if not isinstance(config, Mapping):
        return config
    config = {key: _constant(value) for key, value in config.items()}
    if config.get("class_name") == HardConcrete.__name__:
        config["config"] = {**config["config"], "trainable": False}
    return config


def _without_fields(model: RankingModel) -> RankingModel:
    """Returns a copy without its closed fields."""
    old = model.tower
    fields = _kept_fields(model)
    names = [old.field_gate.kept[i] for i in fields]
    if len(names) == len(old.field_gate.kept):
        return model
    if not isinstance(old.interaction, FieldInteraction):
        raise ValueError(
            "Fields can be cut out of a model with a FieldInteraction. "
            f"Received: interaction={old.interaction!r}"
        )
    for layer in () if old.interaction.autoint is None else old.interaction.autoint.layers:
        require_order_free("The attention of the fields", layer.heads.mechanism)
    smaller = _smaller(model, names)
    new = smaller.tower
    smaller.embedding.take_rows(model.embedding)
    for name, history in new.histories.items():
        _copy(old.histories[name], history)
    new.field_gate.gate.log_alpha.assign(
        ops.convert_to_numpy(old.field_gate.gate.log_alpha)[fields]
    )
    numbers: dict[tuple[str, int], int] = {}
    before, after = (_numbered_columns(one, numbers) for one in (model, smaller))
    _copy(old.interaction, new.interaction, _places_in_mlp(old.interaction, before, after))
    _copy(old.head, new.head, _places_in_vector(old.interaction, before, after))
    smaller.calibrate(model.calibration())
    return smaller


def _smaller(model: RankingModel, names: Sequence[str]) -> RankingModel:
    """Returns a new model whose fields are those of these features and histories."""
    schema, gate = model.schema, model.tower.field_gate
    histories = [name for name in gate.histories if name in names]
    queries = {
        schema.table_owner(sequence.name)
        for name in histories
        for sequence in schema.histories[name]
    }
    contexts = [getattr(model.tower.histories[name], "context", None) for name in histories]
    named = {feature for context in contexts if context is not None for feature in context.features}
    left = Schema(
        tuple(
            feature
            for feature in schema.features
            if feature.name in names
            or feature.name in queries | named
            or getattr(feature, "history", None) in histories
        ),
        schema.tasks,
    )
    config = model.get_config()
    tower = config["tower"]["config"]
    embedding = {
        **config["embedding"]["config"],
        "schema": left.to_dict(),
        "named": [name for name in model.embedding.named if name in named],
    }
    there = {feature.name for feature in left.features}
    features = [name for name in gate.features if name in there]
    of_gate = {
        **tower["field_gate"]["config"],
        "features": features,
        "histories": histories,
        "unused": [name for name in features if name not in names],
    }
    tower = {
        **tower,
        "histories": {name: tower["histories"][name] for name in histories},
        "field_gate": {**tower["field_gate"], "config": of_gate},
    }
    return type(model).from_config(
        {
            **config,
            "embedding": {**config["embedding"], "config": embedding},
            "tower": {**config["tower"], "config": tower},
        }
    )


def _numbered_columns(model: RankingModel, numbers: dict[tuple[str, int], int]) -> list[np.ndarray]:
    """Returns blocks (F, E) of the interaction's inputs, with numbers in place of values.

    Args:
        model: Its fields in the tower are those of `numbers`, or some of them.
        numbers: The number of each column of a feature or a history; new ones are added.
    """
    gate, embedded = model.tower.field_gate, model.embedding(example_inputs(model.schema))
    interests, _ = model.tower.interests(embedded)
    blocks, present = field_blocks(embedded, interests)
    features, histories, numbered = iter(gate.features), iter(interests), []
    for index, block in enumerate(blocks):
        fields, width = tuple(block.shape[-2:])
        is_history = index >= len(blocks) - len(interests)
        names = itertools.islice(histories if is_history else features, 1 if is_history else fields)
        size = fields * width if is_history else width
        columns = [(name, i) for name in names for i in range(size)]
        places = [numbers.setdefault(column, len(numbers)) for column in columns]
        numbered.append(np.reshape(places, (1, 1, fields, width)))
    grouped, _ = by_width(gate.used(numbered), gate.used(present, axis=-1))
    return [ops.convert_to_numpy(block)[0, 0] for block in grouped]


def _places(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the place of each column of `after` among the columns of `before`."""
    old, new = (np.concatenate([block.ravel() for block in blocks]) for blocks in (before, after))
    return np.argsort(old)[np.searchsorted(np.sort(old), new)]


def _places_of_attention(
    interaction: FieldInteraction, before: Sequence[np.ndarray], after: Sequence[np.ndarray]
) -> np.ndarray:
    """Returns the same for the output of the interacting layers."""
    fields = _places([before[0][:, :1]], [after[0][:, :1]])
    size = interaction.autoint.compute_output_shape((None, *before[0].shape))[-1]
    return (fields[:, None] * size + np.arange(size)).ravel()


def _places_in_mlp(
    interaction: FieldInteraction, before: Sequence[np.ndarray], after: Sequence[np.ndarray]
) -> np.ndarray:
    """Returns the same for the input of the MLP."""
    fields = _places(before, after)
    if not interaction.stacked:
        return fields
    begin = sum(block.size for block in before)
    return np.r_[fields, begin + _places_of_attention(interaction, before, after)]


def _places_in_vector(
    interaction: FieldInteraction, before: Sequence[np.ndarray], after: Sequence[np.ndarray]
) -> np.ndarray:
    """Returns the same for the output of the interaction."""
    parts, begin = [], 0
    if interaction.stacked:
        units = interaction.mlp.units[-1]
        return np.r_[np.arange(units), units + _places(before, after)]
    if interaction.autoint is not None:
        parts.append(_places_of_attention(interaction, before, after))
        begin = len(before[0]) * (len(parts[0]) // len(after[0]))
    if interaction.mlp is not None:
        parts.append(begin + np.arange(interaction.mlp.units[-1]))
    elif interaction.autoint is None:
        parts.append(_places(before, after))
    return np.concatenate(parts)


def _copy(
    old: keras.layers.Layer, new: keras.layers.Layer, places: np.ndarray | None = None
) -> None:
    """Copies weights; an axis of another size keeps the rows of these places."""
    for theirs, ours in zip(old.weights, new.weights, strict=True):
        value = ops.convert_to_numpy(theirs)
        for axis, size in enumerate(ours.shape):
            if value.shape[axis] != size and places is not None:
                value = np.take(value, places, axis=axis)
        ours.assign(value)
