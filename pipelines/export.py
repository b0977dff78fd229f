"""Exports a model as a SavedModel that takes raw values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from pipelines.config import ExportOptions
from pipelines.data import DataSplit
from pipelines.features import FittedFeatures
from pipelines.features.graph import FeatureGraph, raw_dtype
from pipelines.parity import check_parity, sample_requests
from pipelines.raw import (
    EXPLAINED_SIGNATURE,
    RANK_SIGNATURE,
    ROWS_SIGNATURE,
    raw_request,
    raw_rows,
)
from pipelines.warmup import write_warmup
from recsys_attn.models import RankingModel
from recsys_attn.schema import Feature, is_listed

_OF_CANDIDATES = (RANK_SIGNATURE, EXPLAINED_SIGNATURE)


class ServingModule(tf.Module):
    """The fitted transforms and the model as one graph, with a signature for rows and for lists.

    `serving_default` takes every feature as rows `(B,)` and gives `(B,)` a task. `rank` takes the
    context as `(B,)` and candidates as `(B, N)` and gives `(B, N)` a task; what belongs to the
    context is looked up and encoded once. Lists have one more axis. Inputs are named after the
    features, outputs after the tasks. `rank_explained` is `rank` with what `RankingModel.explain`
    gives, where it gives anything; weights of events are in the order in which they were sent.
    """

    def __init__(self, model: RankingModel, fitted: FittedFeatures) -> None:
        super().__init__()
        self.features = FeatureGraph(fitted)
        self.model_variables = [variable.value for variable in model.variables]
        self._schema = fitted.schema
        self._model = model.probabilities
        self._explain = model.explain
        self._explains = bool(model.explanations)

    def signatures(self) -> dict[str, Any]:
        """Concrete functions by signature name."""
        found = {ROWS_SIGNATURE: self._concrete(self._rows, per_request=False)}
        # Without a candidate's feature there is nothing to rank: all rows would be one.
        if any(feature.side == "candidate" for feature in self._schema.features):
            found[RANK_SIGNATURE] = self._concrete(self._rank, per_request=True)
            if self._explains:
                found[EXPLAINED_SIGNATURE] = self._concrete(self._explained, per_request=True)
        return found

    def _rows(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = {
            feature.name: raw[feature.name][:, None]
            if feature.side == "candidate"
            else raw[feature.name]
            for feature in self._schema.features
        }
        return {task: scores[:, 0] for task, scores in self._rank(**inputs).items()}

    def _rank(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._model(self.features(raw))

    def _explained(self, **raw: tf.Tensor) -> dict[str, tf.Tensor]:
        events = self.features.events(raw)
        probabilities, explanation = self._explain(self.features.inputs(raw, events))
        return {**probabilities, **self.features.as_sent(explanation, events)}

    def _concrete(self, function: Any, per_request: bool) -> Any:
        specs = {
            feature.name: tf.TensorSpec(_shape(feature, per_request), raw_dtype(feature))
            for feature in self._schema.features
        }
        named = {
            name: tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in specs.items()
        }
        return tf.function(function, autograph=False).get_concrete_function(**named)


def _shape(feature: Feature, per_request: bool) -> list[None]:
    axes = 1 + is_listed(feature) + (per_request and feature.side == "candidate")
    return [None] * axes


def export(
    folder: Path,
    name: str,
    version: int,
    model: RankingModel,
    fitted: FittedFeatures,
    request: str | None,
    sample: DataSplit,
    options: ExportOptions,
) -> dict[str, Any]:
    """Writes a checked SavedModel with its warm-up file; returns what its manifest holds.

    Raises:
        PipelineError: The exported model does not score like the trained one.
    """
    schema = fitted.schema
    requests = sample_requests(schema, sample, request, options.parity_rows)
    module = ServingModule(model, fitted)
    signatures = module.signatures()
    tf.saved_model.save(module, str(folder), signatures=signatures)
    parity = check_parity(model, fitted, folder, requests, options.tolerance)
    warmup = requests[: options.warmup_requests]
    write_warmup(
        folder,
        name,
        [(ROWS_SIGNATURE, raw_rows(schema, table)) for table in warmup]
        + [
            (signature, raw_request(schema, table))
            for signature in _OF_CANDIDATES
            if signature in signatures
            for table in warmup
        ],
    )
    return {
        "format": 1,
        "name": name,
        "version": version,
        "schema": schema.to_dict(),
        "signatures": {signature: _describe(model, signature) for signature in signatures},
        "parity": parity,
    }


def _describe(model: RankingModel, signature: str) -> dict[str, Any]:
    inputs = {
        feature.name: {
            "dtype": raw_dtype(feature).name,
            "rank": len(_shape(feature, signature in _OF_CANDIDATES)),
            "side": feature.side,
        }
        for feature in model.schema.features
    }
    outputs = [task.name for task in model.schema.tasks]
    if signature == EXPLAINED_SIGNATURE:
        outputs += model.explanations
    return {"inputs": inputs, "outputs": outputs}
