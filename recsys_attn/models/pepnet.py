"""PEPNet: embeddings scaled by the domain, and towers scaled by the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from recsys_attn.checks import unknown_name
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import TaskHeads
from recsys_attn.models.field_gate import field_places
from recsys_attn.models.gated_fields import GatedFields, Place
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_types import Count, Names, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.tower import Tower
from recsys_attn.multitask.gated_towers import GatedTowers
from recsys_attn.schema import Schema


@MODELS.register("pepnet")
def pepnet(
    schema: Schema,
    *,
    domain: Names = (),
    person: Names = (),
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    tower_units: Sizes = (256, 128, 64),
    gate_units: Count = 64,
    dropout: Share = 0.0,
) -> RankingModel:
    """Parameter and Embedding Personalized Network: gates of embeddings and of tower layers.

    EPNet scales each channel of the embeddings by the features of `domain`, PPNet the input of each
    layer of each task's tower by those of `person`. A gate also sees the embeddings that it scales,
    but has no gradient to them. The named features stay fields among the others.

    Source: Chang et al., "PEPNet: Parameter and Embedding Personalized Network for Infusing with
    Personalized Prior Information", KDD 2023, arXiv 2302.01115.

    Args:
        schema: A fitted schema.
        domain: Names of the features of the domain, such as the scenario. Defaults to none: PPNet
            alone.
        person: Names of the features of user, item and author, such as their ids. Defaults to
            none: EPNet alone.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel.
        tower_units: Hidden units of each task's tower.
        gate_units: Hidden units of each gate. More of them for many named features.
        dropout: Dropout of the towers.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: No feature is named, or one is no field.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import pepnet
    >>> from recsys_attn.schema import Categorical, Schema, Task
    >>> item, page = Categorical("item", size=7), Categorical("page", "context", size=3)
    >>> schema = Schema((item, page), (Task("click"), Task("buy")))
    >>> model = pepnet(schema, domain=["page"], person=["item"], width=4)
    >>> logits = model({"item": np.array([[2, 3, 4]]), "page": np.array([2])})
    >>> tuple(logits["buy"].shape)
    (1, 3)
    """
    if not domain and not person:
        raise ValueError(
            "pepnet needs features that gate the others: name those of the `domain`, of the "
            "`person` or both. Received: domain=(), person=(). Without gates it is the model mlp"
        )
    places = field_places(schema, width)
    of_person = _places("person", person, places)
    fields = GatedFields(_places("domain", domain, places), of_person, gate_units)
    tasks = [task.name for task in schema.tasks]
    if person:
        size = sum(size for size, _ in of_person)
        towers = GatedTowers(len(tasks), tower_units, size, gate_units, dropout=dropout)
        head = TaskHeads(tasks, experts=towers)
    else:
        head = TaskHeads(tasks, tower_units, dropout=dropout)
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(histories=pooled(history_pooling, schema.histories), interaction=fields, head=head),
        name="pepnet",
    )


def _places(option: str, names: Sequence[str], places: Mapping[str, Place]) -> list[Place]:
    """Returns the places of the features that an option names."""
    for name in names:
        if name not in places:
            raise ValueError(
                f"`{option}` must be names of features, no sequences. {unknown_name(name, places)}"
            )
    return [places[name] for name in names]
