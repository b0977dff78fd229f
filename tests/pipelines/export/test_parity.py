"""The parity check refuses exports that score unlike the trained model."""

import dataclasses

import numpy as np
import pytest

from pipelines.common.errors import PipelineError
from pipelines.export import parity as parity_module
from pipelines.export import tf_examples as examples_module
from pipelines.export.parity import awkward_rows, check_parity, sample_requests
from pipelines.export.raw_inputs import raw_request
from pipelines.features import graph as graph_module
from pipelines.feed.chunk import transform
from pipelines.scoring import scorer as scoring_module
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import Categorical, Schema, is_listed
from tests.support import shop
from tests.support.exports import split_requests, write_export

NAMES = ("user", "age", "item", "sales", "past_items", "past_brands", "brand")
SMALL = Schema(tuple(f for f in shop.SCHEMA.features if f.name in NAMES), shop.SCHEMA.tasks)


@pytest.fixture(scope="module")
def fitted():
    return shop.fitted(SMALL)


@pytest.fixture(scope="module")
def exported(fitted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "1"
    write_export(folder, shop.linear_model(fitted), fitted)
    return folder


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    table = shop.table(9, seed=2, schema=SMALL)
    path = shop.write(tmp_path_factory.mktemp("split") / "rows.parquet", [table])
    return sample_requests(SMALL, DataSplit(path), "request", 17)


def test_equal_model_passes_parity(fitted, exported, requests):
    parity = check_parity(shop.linear_model(fitted), fitted, exported, requests, 1e-5)
    assert parity["rows"] == sum(table.num_rows for table in requests) >= 17 + 4
    assert 0 <= parity["max_abs_difference"] <= 1e-6


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", [0.01, np.nan])
def test_changed_weight_fails_parity(fitted, exported, requests, value):
    model = shop.linear_model(fitted)
    offsets = next(w for w in model.trainable_variables if w.path.endswith("offsets"))
    offsets.assign(offsets + value)
    message = (
        r"does not score like the trained one, so nothing was exported: task 'click', row "
        r"\{'user': .*\}: 0\.\d{7} exported, (0\.\d{7}|nan) trained \(`export\.tolerance` = 1e-05\)"
    )
    with pytest.raises(PipelineError, match=message):
        check_parity(model, fitted, exported, requests, 1e-5)
    if np.isfinite(value):
        parity = check_parity(model, fitted, exported, requests, 0.1)
        assert 1e-4 < parity["max_abs_difference"] < 0.1


def test_an_export_with_a_skewed_graph_is_refused(fitted, tmp_path, monkeypatch):
    keep_last = graph_module.keep_last

    def keep_first(ids, length):
        return keep_last([part[..., :length] for part in ids], length)

    monkeypatch.setattr(graph_module, "keep_last", keep_first)
    with pytest.raises(PipelineError, match="does not score like"):
        write_export(tmp_path / "1", shop.linear_model(fitted), fitted, parity_rows=1)


def without_an_age(name):
    """Examples without the feature `age`."""

    def write(schema, table):
        kept = Schema(tuple(f for f in schema.features if f.name != "age"), schema.tasks)
        return getattr(examples_module, name)(kept, table)

    return write


def of_the_wrong_request(table, fitted, request, labelled=True):
    """The training path's inputs, with the contexts of a request in another order."""
    chunk = transform(table, fitted, request, labelled)
    if request is None:
        return chunk
    context = chunk.layout.blocks_of("context")
    blocks = {n: a[::-1] if n in context else a for n, a in chunk.blocks.items()}
    return dataclasses.replace(chunk, blocks=blocks)


def reversed_candidates(schema, table):
    raw = raw_request(schema, table)
    return {n: a[:, ::-1] if schema[n].side == "candidate" else a for n, a in raw.items()}


def of_another_class(label, call=parity_module._call):
    def changed(loaded, signature, raw):
        outputs = call(loaded, signature, raw)
        if signature == "examples_with_context":
            outputs["buy.scores"][:, label] += 0.01
        return outputs

    return changed


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("module", "name", "changed"),
    [
        (parity_module, "example_rows", without_an_age("example_rows")),
        (parity_module, "example_request", without_an_age("example_request")),
        (parity_module, "raw_request", reversed_candidates),
        (parity_module, "_call", of_another_class(0)),
        (parity_module, "_call", of_another_class(1)),
        (scoring_module, "transform", of_the_wrong_request),
    ],
    ids=["rows", "request", "rank", "class 0", "class 1", "training path"],
)
def test_other_scores_fail_parity(fitted, exported, requests, monkeypatch, module, name, changed):
    monkeypatch.setattr(module, name, changed)
    with pytest.raises(PipelineError, match="does not score like"):
        check_parity(shop.linear_model(fitted), fitted, exported, requests, 1e-5)


@pytest.mark.parametrize("rows", [1, 2, 7, 17, 999])
@pytest.mark.parametrize("request_column", ["request", None])
def test_the_sample_is_whole_requests_from_all_over_the_split(tmp_path, rows, request_column):
    groups = [shop.table(9, seed=seed) for seed in range(3)]
    split = DataSplit(shop.write(tmp_path / "rows.parquet", groups))
    tables = sample_requests(shop.SCHEMA, split, request_column, rows)
    assert all(t.schema == tables[0].schema for t in tables)
    names = [feature.name for feature in shop.SCHEMA.features]
    found = tables[:-4]
    taken = []
    for group in groups:
        requests = split_requests(group) if request_column else rows_of(group)
        count = 0
        while found and requests and found[0].equals(requests[0].select(names)):
            count += found.pop(0).num_rows
            requests.pop(0)
        taken.append(count)
    assert not found, "a request is torn, or from nowhere"
    assert sum(taken) >= min(rows, sum(group.num_rows for group in groups))
    assert sum(taken) < rows + 3 * 5
    if rows >= 7:
        assert min(taken) >= 2


def rows_of(table):
    return [table.slice(row, 1) for row in range(table.num_rows)]


def test_awkward_rows():
    row = shop.table(1, seed=2, longest=1)
    missing, empty, unknown, overlong = (t.to_pylist()[0] for t in awkward_rows(shop.SCHEMA, row))
    fitted = shop.fitted()
    known = {
        name: set(fitted.transform_of(name).values.to_pylist())
        for name in ("user", "interests", "item", "past_items", "searches")
    }
    assert set(missing.values()) == {None}
    for feature in shop.SCHEMA.features:
        if is_listed(feature):
            assert empty[feature.name] == []
            assert len(overlong[feature.name]) > 2 * feature.max_length
            assert None in overlong[feature.name]
        else:
            assert empty[feature.name] == overlong[feature.name] == row[feature.name][0].as_py()
        if feature.name in known and isinstance(feature, Categorical) and not feature.multivalued:
            assert unknown[feature.name] not in known[feature.name]
        elif feature.name in known:
            assert unknown[feature.name]
            assert not set(unknown[feature.name]) & known[feature.name]
