"""The export with an item table: a request needs the id only."""

import dataclasses
import io
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.experiment.config import ExportOptions
from pipelines.export.export import export
from pipelines.export.parity import check_parity, sample_requests
from pipelines.export.raw_inputs import raw_rows
from pipelines.features import FittedFeatures
from pipelines.scoring.score_files import score
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import mlp
from recsys_attn.schema import Sequence
from tests.support import next_items
from tests.support.exports import call
from tests.support.once import once


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "next_items", next_items.prepare)


def without_id(fitted: FittedFeatures) -> FittedFeatures:
    """A model of the items' features alone, with histories of no shared table."""
    features = tuple(
        dataclasses.replace(f, shares=None, size=9) if isinstance(f, Sequence) else f
        for f in fitted.schema.features
    )
    transforms = {**fitted.transforms, "history": fitted.transforms["item"]}
    schema = dataclasses.replace(fitted.schema, features=features)
    return dataclasses.replace(fitted, schema=schema, transforms=transforms).without(("item",))


def model_of(fitted: FittedFeatures):
    model = mlp(fitted.schema, width=4, units=(8,))
    rng = np.random.default_rng(2)
    model.set_weights([0.4 * rng.normal(size=w.shape) for w in model.get_weights()])
    return model


@pytest.fixture(scope="module", params=["with the id", "without the id"])
def exported(request, folder, tmp_path_factory):
    fitted = FittedFeatures.load(folder / "run" / "features")
    if request.param == "without the id":
        sizes = {"history": fitted.transforms["item"].size}
        fitted = without_id(fitted)
        fitted = dataclasses.replace(fitted, schema=fitted.schema.with_sizes(sizes))
    model = model_of(fitted)
    target = tmp_path_factory.mktemp("export") / "1"
    test = DataSplit(folder / "run" / "data" / "test")
    manifest = export(target, "next", 1, model, fitted, "request", test, ExportOptions())
    return fitted, model, manifest, target


def rows() -> pa.Table:
    """Known, unknown and missing ids."""
    ids = [*next_items.items()["item"].to_pylist(), 7, None]
    histories = [[100 + n, 101, 999][: n % 4] for n in range(len(ids))]
    return pa.table({"item": pa.array(ids, pa.int64()), "history": histories})


@pytest.mark.sampled(2)
def test_requests_have_the_id_only(exported) -> None:
    fitted, model, manifest, target = exported
    loaded = tf.saved_model.load(str(target))
    described = manifest["signatures"]["serving_default"]["inputs"]
    assert set(described) == {"item", "history"}
    assert manifest["items"] == {"key": "item", "features": ["tags", "price"], "rows": 29}
    found = call(loaded, "serving_default", raw_rows(fitted.raw_schema, rows()))["next"]
    catalogue = {row["item"]: row for row in next_items.items().to_pylist()}
    absent = {"tags": None, "price": None}
    joined = pa.Table.from_pylist(
        [{**catalogue.get(row["item"], absent), **row} for row in rows().to_pylist()]
    )
    expected = Scorer(model).score_table(joined, fitted, None)["next"]
    assert len(np.unique(expected.round(4))) > 20
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_batch_scoring_needs_the_id_only(exported, tmp_path) -> None:
    fitted, model, _, _ = exported
    pq.write_table(rows(), tmp_path / "rows.parquet")
    lied = rows().append_column("price", pa.array([1e6] * len(rows())))  # the item table counts
    pq.write_table(lied, tmp_path / "lied.parquet")
    expected = Scorer(model).score_table(fitted.joined(rows()), fitted, None)["next"]
    for name in ("rows", "lied"):
        progress = Progress(Console(file=io.StringIO()))
        source, target = tmp_path / f"{name}.parquet", tmp_path / "scores.parquet"
        score(source, target, ["next"], lambda: (fitted, model), None, progress)
        np.testing.assert_allclose(pq.read_table(target)["next_score"], expected, atol=1e-6)


def test_other_features_in_the_graph_are_found(exported, folder, tmp_path) -> None:
    fitted, model, _, target = exported
    table = fitted.items.table
    cheaper = table.set_column(
        table.column_names.index("price"), "price", pa.array([0.5] * len(table), pa.float32())
    )
    other = dataclasses.replace(fitted, items=dataclasses.replace(fitted.items, table=cheaper))
    copy = Path(shutil.copytree(target, tmp_path / "copy"))
    test = DataSplit(folder / "run" / "data" / "test")
    requests = sample_requests(other.raw_schema, test, "request", 50)
    with pytest.raises(PipelineError, match="does not score like the trained one"):
        check_parity(model, other, copy, requests, 1e-5)
