"""The models that `benchmarks/serving.py` serves, and their requests.

    python -m benchmarks.servers.subjects FOLDER OPTIONS

OPTIONS is JSON, such as `{"models": ["din"], "candidates": [200], "seed": 0}`.

Untrained models of the project, fitted to made data and exported by its own code, as
`FOLDER/models/NAME/1`, and requests as `FOLDER/requests/NAME/CANDIDATES/WAY-NUMBER`, ready to be
sent: with `rank`, one context and its candidates; with `tiled`, the same as rows, each with the
whole context. A single candidate is a row in both.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from pipelines.common.artifacts import MANIFEST, write_json
from pipelines.experiment.config import ExportOptions
from pipelines.export.export import export
from pipelines.export.raw_inputs import RANK_SIGNATURE, ROWS_SIGNATURE, Raw, raw_request, raw_rows
from pipelines.features import FittedFeatures
from pipelines.features.fit import fit
from pipelines.storage.dataset import DataSplit
from recsys_attn import models
from recsys_attn.models import RankingModel
from recsys_attn.schema import Categorical, Feature, Numeric, Schema, Sequence, Task, is_listed

VOCABULARY = 10_000  # values of all strings of a model together
EVENTS = 200
DISTINCT = 8  # requests of a size, sent in turns
STRINGS, NUMBERS = 26, 13
CONTEXT_STRINGS, CONTEXT_NUMBERS = 14, 6  # of them, those of the context


def schema_of(name: str) -> Schema:
    """39 fields for AutoInt; users, items and a history of items for the others."""
    if name == "autoint":
        features: list[Feature] = [
            Categorical(f"s{i}", "context" if i < CONTEXT_STRINGS else "candidate")
            for i in range(STRINGS)
        ]
        features += [
            Numeric(f"n{i}", "context" if i < CONTEXT_NUMBERS else "candidate")
            for i in range(NUMBERS)
        ]
    else:
        features = [
            Categorical("user", "context"),
            Categorical("country", "context"),
            Numeric("age", "context"),
            Categorical("item"),
            Categorical("brand"),
            Numeric("price"),
            Sequence("seen", shares="item", max_length=EVENTS),
        ]
    return Schema(tuple(features), (Task("click"),))


def model_of(name: str, schema: Schema) -> RankingModel:
    """A model with its first weights."""
    if name == "autoint":
        return models.autoint(
            schema, width=16, interaction={"num_layers": 2, "num_heads": 2, "head_dim": 32}
        )
    if name == "din":
        return models.din(schema, width=32)
    if name == "logistic_regression":
        return models.logistic_regression(schema)
    return models.din(schema, width=32, encoder="transformer", target_attention="transformer")


def values_of(schema: Schema) -> int:
    """Different values of each string."""
    strings = [f for f in schema.features if f.dtype == "string" and not is_listed(f)]
    return VOCABULARY // len(strings)


def table_of(schema: Schema, requests: int, candidates: int, rng: np.random.Generator) -> pa.Table:
    """Rows of requests, one after the other."""
    columns: dict[str, pa.Array] = {"request": np.repeat(np.arange(requests), candidates)}
    for feature in schema.features:
        is_shared = feature.side == "context"
        count = requests if is_shared else requests * candidates
        if is_listed(feature):
            events = words(rng.integers(values_of(schema), size=count * EVENTS))
            offsets = np.arange(0, count * EVENTS + 1, EVENTS, dtype="int32")
            column: pa.Array = pa.ListArray.from_arrays(offsets, events)
        elif feature.dtype == "string":
            column = words(rng.integers(values_of(schema), size=count))
        else:
            column = pa.array(rng.normal(size=count).astype("float32"))
        rows = np.repeat(np.arange(count), candidates if is_shared else 1)
        columns[feature.name] = column.take(pa.array(rows))
    columns["click"] = rng.integers(2, size=requests * candidates).astype("int8")
    return pa.table(columns)


def words(numbers: np.ndarray) -> pa.Array:
    """Strings of eight characters."""
    return pa.array([f"id{number:06d}" for number in numbers])


def fitted_of(schema: Schema, rng: np.random.Generator) -> FittedFeatures:
    """Transforms that have seen every value."""
    count = values_of(schema)
    columns = {
        feature.name: words(np.arange(count))
        if feature.dtype == "string"
        else pa.array(rng.normal(size=count).astype("float32"))
        for feature in schema.features
        if not is_listed(feature)
    }
    return fit(schema, [pa.table(columns)])


def write_model(folder: Path, name: str, seed: int) -> Schema:
    """Exports a model as version 1; returns its schema."""
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    fitted = fitted_of(schema_of(name), rng)
    sample = folder.parent / f"{name}.parquet"
    pq.write_table(table_of(fitted.schema, 4, 16, rng), sample)
    version = folder / name / "1"
    manifest = export(
        version,
        name,
        1,
        model_of(name, fitted.schema),
        fitted,
        "request",
        DataSplit(sample),
        ExportOptions(parity_rows=64),
    )
    write_json(version / MANIFEST, manifest)
    return fitted.schema


def write_requests(folder: Path, name: str, schema: Schema, candidates: int, seed: int) -> None:
    """Writes requests of a size in both ways."""
    rng = np.random.default_rng((seed, candidates))
    folder.mkdir(parents=True)
    for number in range(DISTINCT):
        table = table_of(schema, 1, candidates, rng)
        rows = message(name, ROWS_SIGNATURE, raw_rows(schema, table))
        rank = message(name, RANK_SIGNATURE, raw_request(schema, table))
        (folder / f"tiled-{number}").write_bytes(rows)
        (folder / f"rank-{number}").write_bytes(rank if candidates > 1 else rows)


def message(name: str, signature: str, inputs: Raw) -> bytes:
    """A Predict request, as a client of TensorFlow Serving would build it."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = name, signature
    for key, array in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(array))
    return request.SerializeToString()


def main() -> None:
    """Writes what the first argument's folder is to hold."""
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    for name in options["models"]:
        schema = write_model(folder / "models", name, options["seed"])
        for candidates in options["candidates"]:
            target = folder / "requests" / name / str(candidates)
            write_requests(target, name, schema, candidates, options["seed"])


if __name__ == "__main__":
    main()
