"""Exports of the small shop's models, and what their signatures answer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.common.artifacts import MANIFEST, write_json
from pipelines.experiment.export_options import ExportOptions
from pipelines.export.export import export
from pipelines.features import FittedFeatures
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import RankingModel
from recsys_attn.schema import is_listed
from tests.support import shop


def write_export(
    folder: Path, model: RankingModel, features: FittedFeatures, **options: Any
) -> dict[str, Any]:
    """Exports with the parity check on a table of the schema; returns the manifest."""
    table = shop.table(5, seed=6, longest=4, schema=features.schema)
    sample = DataSplit(shop.write(folder.parent / f"{folder.name}.parquet", [table]))
    chosen = ExportOptions(**{"parity_rows": 11, "warmup_requests": 3, **options})
    return export(folder, "shop", 3, model, features, "request", sample, chosen)


def write_shop_export(folder: Path) -> None:
    """Writes version 3 of the small shop's model, with its manifest."""
    fitted = shop.fitted()
    write_json(folder / "3" / MANIFEST, write_export(folder / "3", shop.model(fitted), fitted))


def write_linear_export(folder: Path) -> None:
    """Writes version 3 of a logistic regression of the small shop."""
    fitted = shop.fitted()
    write_export(folder / "3", shop.linear_model(fitted), fitted)


def call(loaded: Any, signature: str, raw: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a signature for raw arrays."""
    function = loaded.signatures[signature]
    inputs = function.structured_input_signature[1]
    tensors = {name: tf.constant(a, inputs[name].dtype, a.shape) for name, a in raw.items()}
    return {task: scores.numpy() for task, scores in function(**tensors).items()}


def split_requests(table: pa.Table) -> list[pa.Table]:
    """A table per request."""
    values = table["request"].to_numpy()
    starts = [*np.flatnonzero(np.diff(values, prepend=values[0] + 1)), len(values)]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(starts)]


def operations(
    signature: Any, features: FittedFeatures, candidates: int, events: int
) -> list[tf.Operation]:
    """The operations of a signature's graph, with their shapes for one request of that size."""
    sizes = {}
    for feature in features.schema.features:
        shape = [1, candidates] if feature.side == "candidate" else [1]
        sizes[feature.name] = [*shape, events] if is_listed(feature) else shape
    with tf.Graph().as_default() as graph:
        inputs = {
            tensor.name: tf.compat.v1.placeholder(
                tensor.dtype, sizes.get(tensor.op.name, tensor.shape)
            )
            for tensor in signature.inputs
        }
        tf.graph_util.import_graph_def(signature.graph.as_graph_def(), inputs)
    return graph.get_operations()
