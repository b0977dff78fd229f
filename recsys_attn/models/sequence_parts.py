"""The registry of sequence models, and what their functions share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras

from recsys_attn.checks import unknown_name
from recsys_attn.embedding_tables import width_of
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.encoded_history import EncoderParts, encoder_parts
from recsys_attn.models.event_encoder import EventEncoder
from recsys_attn.models.item_scores import ItemScores
from recsys_attn.models.option_tables import EventEncoderOptions
from recsys_attn.models.sequence_model import SequenceModel, item_sequence, only_history
from recsys_attn.options import CheckedFunctions
from recsys_attn.schema import Schema, is_age

# The vectors of items start small: a block of full size would hide them.
SMALL_START = {"class_name": "plain", "config": {"initial_gain": 0.16}}

SEQUENCE_MODELS: CheckedFunctions[Callable[..., SequenceModel]] = CheckedFunctions("sequence model")


def get_sequence_model(name: str) -> Callable[..., SequenceModel]:
    """Returns the function of a sequence model.

    Raises:
        ValueError: No sequence model has this name.

    >>> from recsys_attn.models import get_sequence_model
    >>> get_sequence_model("sasrec").__name__
    'sasrec'
    """
    if name not in SEQUENCE_MODELS:
        raise ValueError(
            f"`name` must be the name of a sequence model. {unknown_name(name, SEQUENCE_MODELS)}"
        )
    return SEQUENCE_MODELS[name]


def attention_of(dropout: float, pattern: str | None = None) -> dict[str, Any]:
    """The mechanism of a block, with dropout of its weights too."""
    return {"class_name": "transformer", "config": {"pattern": pattern, "dropout": dropout}}


def event_width(schema: Schema, width: int, action: str | None = None) -> int:
    """The width K of an event: the sum of its sequences' widths."""
    sequences = [s for s in only_history(schema)[1] if not is_age(s) and s.name != action]
    return sum(width_of(schema, s.name, width) for s in sequences)


def parts_of(
    schema: Schema,
    block: dict[str, Any],
    num_layers: int,
    num_heads: int,
    width: int,
    dropout: float,
    positions: Any,
    action: str | None = None,
) -> EncoderParts:
    total = event_width(schema, width, action)
    if total % num_heads:
        raise ValueError(
            f"`num_heads` must divide the width of an event, {total}. "
            f"Received: num_heads={num_heads}"
        )
    encoder = {"class_name": "block", "config": {**block, "dropout": dropout}}
    options = EventEncoderOptions(name=encoder, num_layers=num_layers, positions=positions)
    sequences = only_history(schema)[1]
    if action is not None:
        sequences = tuple(replace(s, max_length=2 * s.max_length) for s in sequences)
    return encoder_parts(options, sequences, (num_heads, total // num_heads))


def model_of(
    schema: Schema,
    width: int,
    encoder: EventEncoder,
    name: str,
    appends: str | None = None,
    action: str | None = None,
    **of_scores: Any,
) -> SequenceModel:
    item = item_sequence(schema)
    if item.size is None:
        raise ValueError(
            f"Feature {item.name!r} has no `size`: how many rows its table needs is known after "
            "fitting. Give `size`, or use `schema.with_sizes(...)`"
        )
    embedding = FeatureEmbedding(schema, width, keras.initializers.RandomNormal(stddev=0.02))
    scores = ItemScores(item.size, width_of(schema, item.name, width), **of_scores)
    return SequenceModel(embedding, encoder, scores, appends, action, name=name)
