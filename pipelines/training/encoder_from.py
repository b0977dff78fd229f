"""Starts a ranking model from the encoder and the items of a sequence model."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from pathlib import Path
from typing import Any, NamedTuple

import keras

from pipelines.common.artifacts import FEATURES, MANIFEST, MODEL, read_json
from pipelines.common.errors import PipelineError, sentence
from pipelines.experiment.encoder_options import EncoderFrom
from pipelines.features import FittedFeatures
from pipelines.training.load import load_sequence_model
from pipelines.training.optimizer import OwnRate
from pipelines.training.teacher import fingerprint_of
from pipelines.training.warm_start import same_ids
from recsys_attn.embedding_tables import plan_tables
from recsys_attn.models import RankingModel, SequenceModel
from recsys_attn.models.pretrained import copy_rows, require_vectors_alone, with_encoder
from recsys_attn.schema import RESERVED_IDS, Schema, Sequence, is_age

_RUN = "model.encoder_from.run"


class Encoded(NamedTuple):
    """A ranking model whose history is encoded by the encoder of a sequence model.

    Attributes:
        model: The model; its rows of items are still its own.
        trained: The sequence model.
        features: Its transforms.
        pairs: The sequences of the history, each with its own of the sequence model.
    """

    model: RankingModel
    trained: SequenceModel
    features: FittedFeatures
    pairs: list[tuple[str, str]]

    def copy_rows(self, fitted: FittedFeatures) -> tuple[int, int]:
        """Copies the rows of the values that both models know.

        Args:
            fitted: The features of the ranking model.

        Returns:
            How many items are known, and the number of all.
        """
        counts = []
        for mine, theirs in self.pairs:
            new, old = same_ids(self.features.transform_of(theirs), fitted.transform_of(mine))
            vectors = keras.ops.convert_to_numpy(self.trained.embedding.vectors(theirs))
            copy_rows(self.model, mine, new, vectors[old])
            owner: Any = fitted.schema[fitted.schema.table_owner(mine)]
            counts.append((len(new) - RESERVED_IDS, owner.size - RESERVED_IDS))
        return counts[0]


def start_from(
    options: EncoderFrom, model: RankingModel, fitted: FittedFeatures
) -> tuple[RankingModel, str]:
    """Returns the model that starts from a sequence model, and a summary line.

    Args:
        options: The run and how its encoder is trained.
        model: A new ranking model.
        fitted: Its features.

    Raises:
        PipelineError: The run does not fit, or no item of it is known.
    """
    start = encoded(options, model)
    known, items = start.copy_rows(fitted)
    if not known:
        mine, theirs = start.pairs[0]
        raise PipelineError(
            f"`{_RUN}`: none of the values of {mine!r} is an item ({theirs!r}) of {options.run}. "
            "Both need the same items as a vocabulary: not hashed, and written in the same way."
        )
    said = f"encoder from {options.run}: {known:,} of {items:,} items known"
    return start.model, said


def encoded(options: EncoderFrom, model: RankingModel) -> Encoded:
    """Returns the model with the encoder of a run, frozen where the options say so.

    Raises:
        PipelineError: The folder is not that of a finished sequence model, or it does not fit.
    """
    _check_run(options.run)
    history = _history(options, model.schema)
    try:
        require_vectors_alone(model)
        features, trained = load_sequence_model(options.run)
        pairs = _pairs(model, history, trained)
        started = with_encoder(model, trained, history)
    except (PipelineError, ValueError) as error:
        raise PipelineError(f"`model.encoder_from`: {sentence(error)}") from None
    started.tower.histories[history].encoder.trainable = options.train == "tuned"
    return Encoded(started, trained, features, pairs)


def own_rate(options: EncoderFrom | None, model: RankingModel) -> OwnRate | None:
    """Returns the variables of the encoder, where they have a learning rate of their own."""
    if options is None or options.learning_rate is None:
        return None
    encoder = model.tower.histories[_history(options, model.schema)].encoder
    return OwnRate(encoder.trainable_variables, options.learning_rate)


def _check_run(run: Path) -> None:
    """Raises unless the model of a run was trained, on the features that are there."""
    fingerprint_of(run, _RUN)
    used = read_json(run / MODEL / MANIFEST)["inputs"]["fit"]
    if read_json(run / FEATURES / MANIFEST)["fingerprint"] != used:
        raise PipelineError(
            f"`{_RUN}`: the features of {run} have changed since its model was trained. Run "
            "`recsys-attn train` again."
        )


def _history(options: EncoderFrom, schema: Schema) -> str:
    names = list(schema.histories)
    if options.history is None and len(names) == 1:
        return names[0]
    if options.history not in names:
        raise PipelineError(
            "`model.encoder_from.history`: expected one of the model's histories, which are the "
            f"values of `history` of its sequence features, {names}. "
            f"Received: {options.history!r}."
        )
    return options.history


def _pairs(model: RankingModel, history: str, trained: SequenceModel) -> list[tuple[str, str]]:
    """The sequences of both histories in their order, checked to have the same widths."""
    mine = _of_ids(model.schema.histories[history])
    theirs = _of_ids(trained.sequences)
    our_widths = [(name, _row_width(model, name)) for name in mine]
    their_widths = [(name, int(trained.embedding.vectors(name, 0).shape[-1])) for name in theirs]
    if trained.action is not None or [w for _, w in our_widths] != [w for _, w in their_widths]:
        advice = (
            "its encoder reads actions as events of their own, which a ranking model has not"
            if trained.action is not None
            else "expected as many sequences of the same widths in the same order, items first: "
            "add a sequence feature for each that is missing, and set the `width` of the model or "
            "of the feature, without `table_width`"
        )
        raise ValueError(
            f"{advice}. Received: {_listed(our_widths)} here, and {_listed(their_widths)} there"
        )
    return list(zip(mine, theirs, strict=True))


def _of_ids(sequences: Ordered[Sequence]) -> list[str]:
    return [sequence.name for sequence in sequences if not is_age(sequence)]


def _listed(widths: Ordered[tuple[str, int]]) -> str:
    return ", ".join(f"{name!r} of width {width}" for name, width in widths)


def _row_width(model: RankingModel, name: str) -> int:
    """The width of a feature's rows, before a projection."""
    tables = plan_tables(model.schema, model.embedding.width)
    table = next(table for table in tables if name in table.offsets)
    return table.table_width or table.width
