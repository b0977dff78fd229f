"""Exports a sequence model as a SavedModel that takes raw events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.common.errors import PipelineError
from pipelines.export.file_list import FILES, list_files
from pipelines.export.raw_inputs import MISSING, RANK_SIGNATURE, ROWS_SIGNATURE, Raw, raw_rows
from pipelines.export.signatures import PREDICT_METHOD, add_views
from pipelines.export.warmup import predict_log, write_warmup
from pipelines.features import FittedFeatures
from pipelines.features.graph import FeatureGraph, raw_dtype
from pipelines.features.vocabulary import VocabularyTransform
from pipelines.metrics.next_items import best
from pipelines.pretraining.export_module import (
    CANDIDATES,
    EXCLUDE,
    ITEMS,
    NEXT_ITEMS,
    SCORE,
    SCORES,
    NextItemModule,
    inputs_of,
)
from pipelines.pretraining.histories import Histories
from pipelines.pretraining.ranking import ModelScores
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import SequenceModel
from recsys_attn.schema import PADDING_ID, RESERVED_IDS

_ROWS = 16  # users of the parity check
_TOLERANCE = 1e-4


def export_next_items(
    folder: Path,
    name: str,
    version: int,
    model: SequenceModel,
    fitted: FittedFeatures,
    test: DataSplit,
    top: int,
    filter_seen: bool,
) -> dict[str, Any]:
    """Writes a checked SavedModel with its warm-up file; returns what its manifest holds.

    Args:
        folder: The folder of the version.
        name, version: Of the exported model.
        model: The model.
        fitted: The transforms of the sequences that it sees.
        test: Rows for the check.
        top: Number of items that are returned.
        filter_seen: Whether items of the history are left out.

    Raises:
        PipelineError: The exported model does not score like the trained one.
    """
    vocabulary = fitted.transform_of(model.item)
    if not isinstance(vocabulary, VocabularyTransform):
        raise PipelineError("The items of a sequence model need a vocabulary.")
    values = vocabulary.values.to_numpy(zero_copy_only=False)
    module = NextItemModule(model, fitted, values, top, filter_seen)
    signatures = module.signatures()
    tf.saved_model.save(module, str(folder), signatures=signatures)
    add_views(folder, {})
    raw = _sample(fitted, test)
    worst = _check(folder, model, fitted, raw, filter_seen)
    item: Any = fitted.schema[model.item]
    nothing = np.full((1, 1), MISSING[item.dtype], raw[model.item].dtype)
    first = {key: value[:1] for key, value in raw.items()}
    write_warmup(
        folder,
        [
            predict_log(name, NEXT_ITEMS, {**first, EXCLUDE: nothing}),
            predict_log(name, RANK_SIGNATURE, {**first, CANDIDATES: first[model.item]}),
        ],
    )
    kind = {"dtype": raw_dtype(item).name, "rank": 2}
    events = inputs_of(fitted)
    found = {
        "method": PREDICT_METHOD,
        "inputs": {**events, EXCLUDE: {**kind, "side": "context"}},
        "outputs": [ITEMS, SCORES],
    }
    ranked = {
        "method": PREDICT_METHOD,
        "inputs": {**events, CANDIDATES: {**kind, "side": "candidate"}},
        "outputs": [SCORE],
    }
    return {
        "format": 1,
        "name": name,
        "version": version,
        "schema": fitted.schema.to_dict(),
        "items": None,
        "signatures": {ROWS_SIGNATURE: found, NEXT_ITEMS: found, RANK_SIGNATURE: ranked},
        "parity": {"rows": len(raw[model.item]), "max_abs_difference": worst},
        FILES: list_files(folder),
    }


def _sample(fitted: FittedFeatures, test: DataSplit) -> Raw:
    """Raw events of the first users, and of one without any."""
    table = next(test.batches([f.name for f in fitted.schema.features])).slice(0, _ROWS)
    raw = raw_rows(fitted.schema, table)
    for feature in fitted.schema.features:
        missing: Any = MISSING[feature.dtype]
        raw[feature.name] = np.pad(raw[feature.name], ((0, 1), (0, 0)), constant_values=missing)
    return raw


def _check(
    folder: Path, model: SequenceModel, fitted: FittedFeatures, raw: Raw, filter_seen: bool
) -> float:
    """Compares the exported items and scores with those of the training path."""
    loaded = tf.saved_model.load(str(folder))
    vocabulary: Any = fitted.transform_of(model.item)
    item: Any = fitted.schema[model.item]
    missing = np.full((len(raw[model.item]), 1), MISSING[item.dtype], raw[model.item].dtype)
    given = {key: tf.constant(value, raw_dtype(fitted.schema[key])) for key, value in raw.items()}
    exclude = tf.constant(missing, raw_dtype(item))
    found = loaded.signatures[NEXT_ITEMS](**given, **{EXCLUDE: exclude})
    inputs = {key: value.numpy() for key, value in FeatureGraph(fitted)(given).items()}
    seen = vocabulary.graph()(given[model.item]).numpy()
    seen = np.where(seen == PADDING_ID, -1, seen)
    targets = np.zeros(len(seen), "int32")
    scores = ModelScores(model)(Histories(inputs, targets, seen))
    top = found[SCORES].shape[1]
    ids, expected = best(scores, top, seen if filter_seen else seen[:, :0])
    finite = np.isfinite(expected)
    worst = float(np.abs(found[SCORES].numpy() - expected)[finite].max(initial=0))
    ranked = loaded.signatures[RANK_SIGNATURE](
        **given, **{CANDIDATES: tf.gather(loaded.values, np.maximum(ids, RESERVED_IDS))}
    )
    worst = max(worst, float(np.abs(ranked[SCORE].numpy() - expected)[finite].max(initial=0)))
    if worst > _TOLERANCE:
        raise PipelineError(
            f"The exported model scores differently from the trained one: by {worst:.1e}, where at "
            f"most {_TOLERANCE:.0e} is allowed. Report this with the experiment file."
        )
    return worst
