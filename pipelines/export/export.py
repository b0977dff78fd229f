"""Exports a model as a SavedModel that takes raw values."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import tensorflow as tf

from pipelines.experiment.export_options import ExportOptions
from pipelines.export.file_list import FILES, list_files
from pipelines.export.packed_state import STATE
from pipelines.export.parity import check_parity, sample_requests
from pipelines.export.rank_states import RankStates, why_stateless
from pipelines.export.serving_module import ServingModule
from pipelines.export.signatures import (
    EXAMPLE_INPUTS,
    PREDICT_METHOD,
    View,
    add_views,
    name_histories,
    views,
)
from pipelines.export.warmup import WARMUP_FILE, warmup_logs, write_warmup
from pipelines.features import FittedFeatures
from pipelines.items import ItemTable
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import RankingModel
from recsys_attn.schema import Schema


def export(
    folder: Path,
    name: str,
    version: int,
    model: RankingModel,
    fitted: FittedFeatures,
    request: str | None,
    sample: DataSplit,
    options: ExportOptions,
    state: Path | None = None,
) -> dict[str, Any]:
    """Writes a checked SavedModel with its warm-up file; returns what its manifest holds.

    `state` is the folder of the features over time and their state, which the export receives as
    `assets.extra/state`, for a store that continues it online.

    Raises:
        PipelineError: The exported model does not score like the trained one.
    """
    schema = fitted.raw_schema
    requests = sample_requests(schema, sample, request, options.parity_rows)
    module = ServingModule(model, fitted)
    reason = why_stateless(model)
    states = None if reason else RankStates(model, module)
    signatures = module.signatures() | ({} if states is None else states.signatures())
    added = views(schema)
    tf.saved_model.save(module, str(folder), signatures=signatures)
    add_views(folder, added)
    name_histories(folder, schema)
    parity = check_parity(model, fitted, folder, requests, options.tolerance)
    write_warmup(folder, warmup_logs(schema, name, requests[: options.warmup_requests], signatures))
    if state is not None:
        shutil.copytree(state, folder / WARMUP_FILE.parent / state.name)
    described = {key: _describe(schema, key, function) for key, function in signatures.items()}
    described |= {key: _describe_view(view, described[view.of]) for key, view in added.items()}
    return {
        "format": 1,
        "name": name,
        "version": version,
        "schema": fitted.schema.to_dict(),
        "items": None if fitted.items is None else _describe_items(fitted, fitted.items),
        "signatures": described,
        "stateful": states is not None,
        "state": {"reason": reason} if states is None else states.description,
        "parity": parity,
        FILES: list_files(folder),  # last, when all are written
    }


def _describe_items(fitted: FittedFeatures, items: ItemTable) -> dict[str, Any]:
    return {"key": items.key, "features": list(fitted.item_features), "rows": len(items)}


def _describe(schema: Schema, signature: str, function: Any) -> dict[str, Any]:
    if signature in EXAMPLE_INPUTS:
        inputs = {
            name: {"dtype": "string", "rank": 1, "holds": "tf.Example", "sides": sides}
            for name, sides in EXAMPLE_INPUTS[signature].items()
        }
    else:
        sides = {feature.name: feature.side for feature in schema.features}
        _, specs = function.structured_input_signature
        inputs = {
            name: {
                "dtype": specs[name].dtype.name,
                "rank": specs[name].shape.rank,
                "side": sides.get(name, "context"),
            }
            for name in (*sides, STATE)
            if name in specs
        }
    outputs = list(function.structured_outputs)
    return {"method": PREDICT_METHOD, "inputs": inputs, "outputs": outputs}


def _describe_view(view: View, whole: dict[str, Any]) -> dict[str, Any]:
    return {"method": view.method, "inputs": whole["inputs"], "outputs": list(view.outputs)}
