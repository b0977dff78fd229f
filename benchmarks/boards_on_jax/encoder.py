"""Ranking models that start from a sequence model which JAX trained with several seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from keras import ops

from benchmarks.boards_on_jax import arrays as names
from recsys_attn.models import RankingModel, get_sequence_model
from recsys_attn.models.pretrained import copy_rows, with_encoder
from recsys_attn.schema import Schema


def started(
    model: RankingModel, encoder: Mapping[str, Any], arrays: Mapping[str, np.ndarray], place: int
) -> RankingModel:
    """Returns the model with the encoder and the rows of a seed, as `model.encoder_from` does.

    Args:
        model: A new ranking model.
        encoder: `schema` and `model` of the sequence model, the `history` that it encodes,
            `train`, and the `pairs` of sequences whose rows are copied.
        arrays: The trained weights of all seeds, and the rows of the known values.
        place: Which of the seeds.
    """
    arguments = dict(encoder["model"])
    build = get_sequence_model(arguments.pop("name"))
    trained = build(Schema.from_dict(encoder["schema"]), **arguments)
    for number, variable in enumerate(trained.trainable_variables):
        variable.assign(arrays[names.of_encoder(number)][place])
    ranker = with_encoder(model, trained, encoder["history"])
    ranker.tower.histories[encoder["history"]].encoder.trainable = encoder["train"] == "tuned"
    for mine, theirs in encoder["pairs"]:
        new, old = (arrays[names.of_rows(mine, side)] for side in ("new", "old"))
        copy_rows(ranker, mine, new, ops.convert_to_numpy(trained.embedding.vectors(theirs))[old])
    return ranker
