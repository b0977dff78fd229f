"""Exports a sequence model as a SavedModel that takes raw events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.common.errors import PipelineError
from pipelines.export.file_list import FILES, list_files
from pipelines.export.packed_state import RANK_FROM_STATE, START, STATE, STEP
from pipelines.export.raw_inputs import RANK_SIGNATURE, ROWS_SIGNATURE, Raw, raw_rows
from pipelines.export.signatures import PREDICT_METHOD, add_views, name_histories
from pipelines.export.warmup import predict_log, write_warmup
from pipelines.features import FittedFeatures
from pipelines.features.graph import raw_dtype
from pipelines.features.vocabulary import VocabularyTransform
from pipelines.metrics.next_items import best
from pipelines.pretraining.evaluated_histories import EvaluatedHistories
from pipelines.pretraining.export_module import (
    CANDIDATES,
    EXCLUDE,
    NEXT_ITEMS,
    SCORE,
    SCORES,
    NextItemModule,
    inputs_of,
    without_unread_ages,
)
from pipelines.pretraining.item_ranking import ModelScores
from pipelines.pretraining.state_module import StateModule, why_stateless
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import SequenceModel
from recsys_attn.schema import PADDING_ID, RESERVED_IDS
from serving.state.columns.missing import MISSING

_ROWS = 16  # users of the parity check
_TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}  # of the largest score


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
    fitted = without_unread_ages(fitted, model)
    module = NextItemModule(model, fitted, values, top, filter_seen)
    reason = why_stateless(model)
    states = None if reason else StateModule(model, module)
    signatures = module.signatures() | ({} if states is None else states.signatures())
    tf.saved_model.save(module, str(folder), signatures=signatures)
    add_views(folder, {})
    name_histories(folder, fitted.schema)
    raw = _sample(fitted, test)
    worst = _check(folder, model, module, raw, filter_seen)
    item: Any = fitted.schema[model.item]
    inputs = {key: value[:1] for key, value in raw.items()}
    inputs[EXCLUDE] = np.full((1, 1), MISSING[item.dtype], raw[model.item].dtype)
    inputs[CANDIDATES] = inputs[model.item]
    inputs |= {} if states is None else {STATE: np.zeros((1, states.size), np.float32)}
    longest = dict.fromkeys(fitted.schema.histories, model.max_length)
    state = {"max_events": longest, "item": model.item, "filter_seen": filter_seen}
    described = {key: _described(function, fitted) for key, function in signatures.items()}
    write_warmup(
        folder,
        [
            predict_log(name, key, {one: inputs[one] for one in described[key]["inputs"]})
            for key in signatures
            if key != ROWS_SIGNATURE
        ],
    )
    return {
        "format": 1,
        "name": name,
        "version": version,
        "schema": fitted.schema.to_dict(),
        "items": None,
        "signatures": described,
        "stateful": not reason,
        "state": {"reason": reason} if reason else state,
        "scores_without_events": model.appends is not None,
        "parity": {"rows": len(raw[model.item]), "max_abs_difference": worst},
        FILES: list_files(folder),
    }


def _described(function: Any, fitted: FittedFeatures) -> dict[str, Any]:
    """The entry of a signature in the manifest."""
    _, specs = function.structured_input_signature
    events = inputs_of(fitted)
    return {
        "method": PREDICT_METHOD,
        "inputs": {
            name: events.get(name)
            or {
                "dtype": spec.dtype.name,
                "rank": spec.shape.rank,
                "side": "candidate" if name == CANDIDATES else "context",
            }
            for name, spec in specs.items()
        },
        "outputs": sorted(function.structured_outputs),
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
    folder: Path, model: SequenceModel, module: NextItemModule, raw: Raw, filter_seen: bool
) -> float:
    """Returns the largest difference of exported scores, of the largest score."""
    loaded = tf.saved_model.load(str(folder))
    schema = module.features.schema
    item: Any = schema[model.item]
    missing = np.full((len(raw[model.item]), 1), MISSING[item.dtype], raw[model.item].dtype)
    events = {key: tf.constant(value, raw_dtype(schema[key])) for key, value in raw.items()}
    exclude = tf.constant(missing, raw_dtype(item))
    outputs = loaded.signatures[NEXT_ITEMS](**events, **{EXCLUDE: exclude})
    inputs = {key: value.numpy() for key, value in module.inputs(events).items()}
    seen = module.ids(events[model.item]).numpy()
    seen = np.where(seen == PADDING_ID, -1, seen)
    targets = np.zeros(len(seen), "int32")
    scores = ModelScores(model)(EvaluatedHistories(inputs, targets, seen))
    top = outputs[SCORES].shape[1]
    ids, expected = best(scores, top, seen if filter_seen else seen[:, :0])
    finite = np.isfinite(expected)
    scored = [outputs[SCORES].numpy()[finite]]
    candidates = tf.gather(loaded.values, np.maximum(ids, RESERVED_IDS))
    ranked = loaded.signatures[RANK_SIGNATURE](**events, **{CANDIDATES: candidates})
    scored.append(ranked[SCORE].numpy()[finite])
    worst = max(float(np.abs(values - expected[finite]).max(initial=0)) for values in scored)
    if START in loaded.signatures:
        stepped = _state_difference(loaded.signatures, events, candidates, model.max_length)
        worst = max(worst, stepped)
    worst /= max(1.0, float(np.abs(expected[finite]).max(initial=0)))
    allowed = _TOLERANCE[model.encoder.compute_dtype]
    if worst > allowed:
        raise PipelineError(
            f"The exported model scores differently from the trained one: by {worst:.1e} of the "
            f"largest score, where at most {allowed:.0e} is allowed. Report this with the "
            "experiment file."
        )
    return worst


def _state_difference(
    signatures: Any, events: dict[str, tf.Tensor], candidates: tf.Tensor, length: int
) -> float:
    """Returns the largest difference of scores in two steps from those of the whole pass."""
    half = length // 2
    events = {name: x[:, :length] for name, x in events.items()}
    first = {name: x[:, :half] for name, x in events.items()}
    second = {name: x[:, half:] for name, x in events.items()}
    state = signatures[START](**first)[STATE]
    state = signatures[STEP](**second, **{STATE: state})[STATE]
    scores = signatures[RANK_FROM_STATE](**{STATE: state, CANDIDATES: candidates})[SCORE]
    expected = signatures[RANK_SIGNATURE](**events, **{CANDIDATES: candidates})[SCORE]
    return float(tf.reduce_max(tf.abs(scores - expected)))
