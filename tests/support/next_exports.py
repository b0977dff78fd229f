"""Exports of sequence models on a small catalogue, and histories to send to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.common.artifacts import MANIFEST, write_json
from pipelines.features import FittedFeatures
from pipelines.features.vocabulary import VocabularyTransform
from pipelines.pretraining.export_next_items import export_next_items
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import SequenceModel, sasrec
from recsys_attn.schema import RESERVED_IDS, Schema, Sequence

ITEMS, LONGEST, TOP = 29, 11, 7
NAMES = tuple(f"i{n}" for n in range(ITEMS))


def fitted(longest: int = LONGEST) -> FittedFeatures:
    """Histories of the items `i0` to `i28`."""
    size = ITEMS + RESERVED_IDS
    schema = Schema((Sequence("item", size=size, dtype="string", max_length=longest),), ())
    return FittedFeatures(schema, {"item": VocabularyTransform(pa.array(NAMES))})


def small_sasrec(schema: Schema) -> SequenceModel:
    """Rotary SASRec of two blocks, which can step."""
    return sasrec(schema, width=8, num_layers=2, num_heads=2, positions="rotary")


def drawn(
    make: Callable[[Schema], SequenceModel], features: FittedFeatures, seed: int = 3
) -> SequenceModel:
    """Returns a model whose weights are all far from zero, so that each event matters."""
    keras.utils.set_random_seed(seed)
    model = make(features.schema)
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(np.asarray(variable) + rng.normal(0, 0.3, variable.shape))
    return model


def write_next_export(
    folder: Path,
    version: int = 1,
    make: Callable[[Schema], SequenceModel] = small_sasrec,
    features: FittedFeatures | None = None,
    seed: int = 3,
    filter_seen: bool = True,
) -> dict[str, Any]:
    """Writes a version of an untrained model with its manifest, which is returned."""
    features = fitted() if features is None else features
    path = folder / str(version)
    path.mkdir(parents=True)
    events = pa.array([list(NAMES[:5]), list(NAMES[3:13]), ["i4"]], pa.list_(pa.string()))
    table = folder.parent / f"{folder.name}-{version}.parquet"
    names = [feature.name for feature in features.schema.features]
    pq.write_table(pa.table(dict.fromkeys(names, events)), table)
    model = drawn(make, features, seed)
    split = DataSplit(table)
    manifest = export_next_items(
        path, folder.name, version, model, features, split, TOP, filter_seen
    )
    write_json(path / MANIFEST, manifest)
    return manifest


def histories(*lists: list[str], missing: str = "") -> np.ndarray:
    """Returns lists as an array, padded on the right."""
    longest = max(1, *map(len, lists))
    rows = [[*row, *[missing] * (longest - len(row))] for row in lists]
    return np.array([[value.encode() for value in row] for row in rows], object)
