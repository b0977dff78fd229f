"""A small shop: a schema with every kind of feature, and tables of awkward rows for it."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.features import FittedFeatures
from pipelines.features.fit import fit
from pipelines.storage.columns import arrow_type
from recsys_attn.id_transforms import Hash, Quantile, Vocabulary
from recsys_attn.models import RankingModel, attention_ranker, logistic_regression
from recsys_attn.options import expanded
from recsys_attn.schema import Categorical, Feature, Numeric, Schema, Sequence, Task, is_listed
from serving.state.columns.missing import MISSING_INT

SCHEMA = Schema(
    features=(
        Categorical("user", "context", transform=Vocabulary(min_count=2)),
        Categorical("city", "context", dtype="int64", transform=Hash(11)),
        Categorical("interests", "context", multivalued=True, max_length=3),
        Numeric("age", "context", transform=("standardise",), encoding="linear"),
        Categorical("item", dtype="int64", transform=Vocabulary(max_size=13)),
        Categorical("brand", transform=Hash(7)),
        Categorical("price", dtype="float32", transform=Quantile(5)),
        Categorical("sizes", dtype="float32", transform=Quantile(3), multivalued=True),
        Categorical("tags", transform=Hash(5), multivalued=True, max_length=2),
        Numeric("sales", transform=("log1p", "standardise"), encoding="piecewise_linear"),
        Numeric("rating", transform=(), encoding="buckets", bins=5),
        # Two aligned sequences, and a history of its own that shares no table.
        Sequence("past_items", shares="item", dtype="int64", max_length=5),
        Sequence("past_brands", shares="brand", max_length=5),
        Sequence("searches", history="searches", max_length=2),
    ),
    tasks=(Task("click"), Task("buy", label="bought", weight=0.5, mask="clicked")),
)

STRINGS = ("a", "b", "\u00fcber", "\u65e5\u672c \U0001f600", "a,b", " a", "nul\0in", "x" * 300)
INTEGERS = (0, -1, 7, 13, 2**40, -(2**62))
FLOATS = (0.0, -0.0, 1.5, -2.25, 1e-3, 5.0, -11.0, 17.0)
UNKNOWN = {"string": "never seen", "int64": 123_456_789, "float32": 23.0}
_MISSING: dict[str, tuple[Any, ...]] = {
    "string": (None, ""),
    "int64": (None, MISSING_INT),
    "float32": (None,),
}
_VALUES: dict[str, Ordered[Any]] = {"string": STRINGS, "int64": INTEGERS, "float32": FLOATS}


def table(
    requests: int, seed: int, longest: int = 5, unknown: bool = False, schema: Schema = SCHEMA
) -> pa.Table:
    """Rows of `requests` requests of 1 to `longest` candidates, with labels and other columns.

    Lists may be null, empty, over-long, and hold missing values; with `unknown`, there are
    values that no other table has.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, requests)
    rows = int(lengths.sum())
    columns: dict[str, pa.Array] = {
        "request": pa.array(np.repeat(rng.permutation(10 * requests)[:requests], lengths))
    }
    events = {name: _lengths(rng, requests) for name in schema.histories}
    for feature in schema.features:
        count = requests if feature.side == "context" else rows
        sizes = events.get(getattr(feature, "history", ""))
        values = _column(rng, feature, count, sizes, unknown)
        if feature.side == "context":
            values = [v for v, n in zip(values, lengths, strict=True) for _ in range(n)]
        columns[feature.name] = pa.array(values, arrow_type(feature.dtype, is_listed(feature)))
    columns["click"] = _labels(rng, rows)
    columns["bought"] = _labels(rng, rows)
    columns["clicked"] = pa.array(rng.random(rows) < 0.6)
    columns["segment"] = pa.array(rng.choice(np.array(["x", "y", None], object), rows))
    columns["truth"] = pa.array(rng.uniform(0.05, 0.95, rows))
    columns["popularity"] = pa.array(rng.integers(0, 23, rows))
    return pa.table(columns)


def fitted(schema: Schema = SCHEMA, rows: int = 97) -> FittedFeatures:
    """Transforms fitted on a table of the schema."""
    return fit(schema, [table(rows, seed=1, schema=schema)])


TARGET_ATTENTION = {"name": {"class_name": "interest", "config": {"units": [5]}}}


def model(features: FittedFeatures, **arguments: Any) -> RankingModel:
    """The flagship as small as it gets, with weights large enough to tell inputs apart."""
    small = {
        "width": 4,
        "target_attention": TARGET_ATTENTION,
        "mlp_units": (5,),
        "experts": {"number": 2, "units": (7,)},
        "tower_units": (3,),
        "dropout": 0.0,  # so that micro-batches draw nothing of their own
    }
    interaction = expanded(arguments.pop("interaction", {}), ("name",))
    small["interaction"] = {"num_layers": 1, "head_dim": 3, **interaction}
    return randomised(attention_ranker(features.schema, **{**small, **arguments}))


def linear_model(features: FittedFeatures) -> RankingModel:
    """A logistic regression, which is quick to trace."""
    return randomised(logistic_regression(features.schema))


def randomised(model: RankingModel) -> RankingModel:
    """The model with weights large enough to tell inputs apart."""
    rng = np.random.default_rng(3)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


def _lengths(rng: np.random.Generator, count: int) -> list[int | None]:
    return [None if n == 0 else int(n - 1) for n in rng.integers(0, 13, count)]


def _labels(rng: np.random.Generator, rows: int) -> pa.Array:
    labels = rng.integers(0, 2, rows)
    return pa.array(labels, pa.int8(), mask=rng.random(rows) < 0.1)


def _column(
    rng: np.random.Generator,
    feature: Feature,
    count: int,
    lengths: Ordered[int | None] | None,
    unknown: bool,
) -> list[Any]:
    choices = [*_VALUES[feature.dtype], *_MISSING[feature.dtype]]
    if unknown:
        choices.append(UNKNOWN[feature.dtype])
    if not is_listed(feature):
        return [choices[i] for i in rng.integers(0, len(choices), count)]
    return [
        None if n is None else [choices[i] for i in rng.integers(0, len(choices), n)]
        for n in lengths or _lengths(rng, count)
    ]


def write(path: Path, row_groups: Ordered[pa.Table]) -> Path:
    """A Parquet file with a row group per table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, row_groups[0].schema) as writer:
        for group in row_groups:
            writer.write_table(group)
    return path


def damage(path: Path, how: str) -> Path:
    """Cuts a file short, or overwrites the middle of it."""
    data = path.read_bytes()
    middle = len(data) // 3
    changed = {
        "cut": data[: len(data) // 2],
        "empty": b"",
        "text": b"item,price\n1,2.5\n",
        "overwritten": data[:4] + b"\xff" * middle + data[4 + middle :],
    }[how]
    path.write_bytes(changed)
    return path
