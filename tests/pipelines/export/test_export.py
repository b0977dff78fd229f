"""The SavedModel: its signatures, and their scores against the training path's."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from pipelines.experiment.names import check_feature_names
from pipelines.export.raw_inputs import raw_request, raw_rows
from pipelines.export.serving_module import ServingModule
from pipelines.export.signatures import views
from pipelines.features.fit import fit
from pipelines.scoring.scorer import Scorer
from recsys_attn.id_transforms import Vocabulary
from recsys_attn.models import logistic_regression
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, is_listed
from tests.serving.exports import load_model
from tests.support import shop
from tests.support.exports import call, operations, split_requests, write_export

TYPES = {"string": tf.string, "int64": tf.int64, "float32": tf.float32}


def only(*keep):
    """The schema with the features that `keep` accepts, and what they share tables with."""
    return Schema(tuple(f for f in shop.SCHEMA.features if all(k(f) for k in keep)), SCHEMA.tasks)


def is_sequence(feature):
    return isinstance(feature, Sequence)


SCHEMA = shop.SCHEMA
SCHEMAS = {
    "all": SCHEMA,
    "no history": only(lambda f: not is_sequence(f)),
    "context": only(lambda f: f.side == "context", lambda f: getattr(f, "shares", None) is None),
    "candidates": only(lambda f: f.side == "candidate"),
    "numbers": only(lambda f: isinstance(f, Numeric)),
}


OTHERS = [pytest.param(name, marks=pytest.mark.thorough) for name in SCHEMAS if name != "all"]


@pytest.fixture(scope="module", params=["all", *OTHERS])
def exported(request, tmp_path_factory, shop_export):
    """A model's scorer, its transforms, the manifest and the loaded export, for each schema."""
    fitted = shop.fitted(SCHEMAS[request.param])
    model = shop.model(fitted)
    if request.param == "all":
        folder = shop_export
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    else:
        folder = tmp_path_factory.mktemp("export") / "3"
        manifest = write_export(folder, model, fitted)
    return Scorer(model), fitted, manifest, tf.saved_model.load(str(folder)), folder


def test_manifest_and_signatures_are_the_schemas(exported):
    _, fitted, manifest, loaded, _ = exported
    ranks = any(feature.side == "candidate" for feature in fitted.schema.features)
    raw = {"serving_default"} | ({"rank", "rank_explained"} if ranks else set())  # it has gates
    of_examples = {"examples"} | ({"examples_with_context"} if ranks else set())
    assert set(loaded.signatures) == raw | of_examples
    assert manifest["signatures"].keys() == raw | of_examples | views(fitted.schema).keys()
    for name in raw:
        signature = loaded.signatures[name]
        per_request = name != "serving_default"
        inputs = signature.structured_input_signature[1]
        described = manifest["signatures"][name]["inputs"]
        assert set(inputs) == set(described) == {f.name for f in fitted.schema.features}
        for feature in fitted.schema.features:
            axes = 1 + is_listed(feature) + (per_request and feature.side == "candidate")
            assert inputs[feature.name].shape.as_list() == [None] * axes
            assert inputs[feature.name].dtype == TYPES[feature.dtype]
            assert described[feature.name] == {
                "dtype": feature.dtype,
                "rank": axes,
                "side": feature.side,
            }
        outputs = ["click", "buy"]
        if name == "rank_explained":
            outputs += [f"attention/{history}" for history in fitted.schema.histories]
            outputs += ["gate/click", "gate/buy"]
            names = shop.model(fitted).explanations
            fields = [name for name in names if name.startswith("field/")]
            assert fields
            outputs += fields
            outputs += [f"known/{history}" for history in fitted.schema.histories]
        assert manifest["signatures"][name]["method"] == "tensorflow/serving/predict"
        assert manifest["signatures"][name]["outputs"] == outputs
        assert set(signature.structured_outputs) == set(outputs)
        for output, spec in signature.structured_outputs.items():
            assert spec.dtype == tf.float32
            several = output.startswith(("attention/", "gate/", "known/"))
            assert spec.shape.rank == 1 + per_request + several
    assert json.loads(json.dumps(manifest)).keys() >= {"schema", "signatures", "parity"}
    assert (manifest["format"], manifest["name"], manifest["version"]) == (1, "shop", 3)
    assert manifest["parity"]["max_abs_difference"] <= 1e-5
    assert 11 + 4 <= manifest["parity"]["rows"] <= 5 * 4 + 4
    read = Schema.from_dict(json.loads(json.dumps(manifest["schema"])))
    assert read == fitted.schema


def test_served_signatures_say_which_lists_belong_together(exported):
    _, fitted, _, _, folder = exported
    expected = {s.name: name for name, found in fitted.schema.histories.items() for s in found}
    for key, signature in load_model("shop", 3, folder).signatures.items():
        found = {name: spec.history for name, spec in signature.input_specs.items() if spec.history}
        assert found == ({} if signature.takes_examples else expected), key


def test_both_signatures_score_as_the_training_path(exported):
    scorer, fitted, _, loaded, _ = exported
    table = shop.table(23, seed=9, unknown=True, schema=fitted.schema)
    expected = scorer.score_table(table, fitted, None)
    rows = call(loaded, "serving_default", raw_rows(fitted.schema, table))
    for task, scores in expected.items():
        assert rows[task].shape == (table.num_rows,)
        assert len(np.unique(scores.round(3))) > 5, "all rows score alike"
        np.testing.assert_allclose(rows[task], scores, rtol=0, atol=1e-5)
    if "rank" not in loaded.signatures:
        return
    position = 0
    for request in split_requests(table):
        found = call(loaded, "rank", raw_request(fitted.schema, request))
        for task, scores in expected.items():
            part = scores[position : position + request.num_rows]
            assert found[task].shape == (1, request.num_rows)
            np.testing.assert_allclose(found[task][0], part, rtol=0, atol=1e-5)
        position += request.num_rows


def _padded(array, feature):
    if not is_listed(feature):
        return array
    missing = {"string": "", "int64": np.iinfo("int64").min, "float32": np.nan}[feature.dtype]
    widths = [(0, 0)] * (array.ndim - 1) + [(0, 29 - array.shape[-1])]
    return np.pad(array, widths, constant_values=missing)


@pytest.mark.parametrize("exported", ["all"], indirect=True)
@pytest.mark.parametrize("signature", ["serving_default", "rank"])
def test_no_rows_no_candidates_and_empty_lists(exported, signature):
    _, fitted, _, loaded, _ = exported
    table = shop.table(1, seed=0, longest=9)
    make = raw_rows if signature == "serving_default" else raw_request
    raw = make(fitted.schema, table)
    axis = 0 if signature == "serving_default" else 1
    side = {"candidate"} if axis else {"candidate", "context"}
    nothing = {
        n: a[(slice(None),) * axis + (slice(0),)] if fitted.schema[n].side in side else a
        for n, a in raw.items()
    }
    for scores in call(loaded, signature, nothing).values():
        assert scores.shape == ((0,) if axis == 0 else (1, 0))
    empty = {n: a[..., :0] if is_listed(fitted.schema[n]) else a for n, a in raw.items()}
    missing = {
        n: _padded(a[..., :0], fitted.schema[n]) if is_listed(fitted.schema[n]) else a
        for n, a in raw.items()
    }
    found, expected = call(loaded, signature, empty), call(loaded, signature, missing)
    for task, scores in expected.items():
        np.testing.assert_allclose(found[task], scores, rtol=0, atol=1e-6)


def test_rank_looks_the_context_up_once():
    """In the graph of 101 candidates, no lookup of a context's value has 101 of anything."""
    fitted = shop.fitted()
    signature = ServingModule(shop.model(fitted), fitted).signatures()["rank"]
    shapes = {"find": [], "hash": [], "rows": []}
    for operation in operations(signature, fitted, candidates=101, events=29):
        inputs = [tensor.shape for tensor in operation.inputs]
        if operation.type == "LookupTableFindV2":
            shapes["find"].append(inputs[1].as_list())
        elif operation.type == "StringToHashBucketFast":
            shapes["hash"].append(inputs[0].as_list())
        elif operation.type == "ResourceGather":  # rows of the embedding table
            shapes["rows"].append(inputs[1].as_list())
    # user, interests, past_items, searches and item; city, past_brands, brand and tags.
    assert sorted(shapes["find"]) == [[1], [1, 29], [1, 29], [1, 29], [1, 101]]
    assert sorted(shapes["hash"]) == [[1], [1, 29], [1, 101], [1, 101, 29]]
    # Two single values, three interests, and 5 + 5 + 2 events; of a candidate 3 + 20 + 2.
    assert sorted(shapes["rows"]) == [[1, 17], [1, 101, 25]]


def test_a_vocabulary_without_values_exports(tmp_path):
    """A column that is missing throughout, or whose values are all too rare."""
    table = shop.table(7, seed=1)
    schema = Schema(
        (Categorical("item", dtype="int64", transform=Vocabulary(10_000)),), SCHEMA.tasks
    )
    fitted = fit(schema, [table])
    assert fitted.schema["item"].size == 2
    write_export(tmp_path / "1", logistic_regression(fitted.schema), fitted)


def test_every_name_that_an_experiment_may_use_exports(tmp_path):
    names = ["inputs", "args", "kwargs", "name", "X1", "x_1", "cls", "a__b", "raw", "training"]
    check_feature_names(names)
    kinds = [Numeric(name, side="context") for name in names[::2]]
    schema = Schema((*kinds, *map(Numeric, names[1::2])), SCHEMA.tasks)
    fitted = shop.fitted(schema)
    manifest = write_export(tmp_path / "1", logistic_regression(fitted.schema), fitted)
    assert manifest["signatures"]["rank"]["inputs"].keys() == set(names)


@pytest.mark.parametrize("exported", ["all"], indirect=True)
def test_several_requests_rank_at_once(exported):
    scorer, fitted, _, loaded, _ = exported
    tables = [shop.table(1, seed=seed, longest=9).slice(0, 2) for seed in (0, 2, 4)]
    assert {table.num_rows for table in tables} == {2}
    raws = [raw_request(fitted.schema, table) for table in tables]
    together = {
        f.name: np.concatenate([_padded(r[f.name], f) for r in raws])
        for f in fitted.schema.features
    }
    found = call(loaded, "rank", together)
    for index, table in enumerate(tables):
        for task, scores in scorer.score_table(table, fitted, None).items():
            np.testing.assert_allclose(found[task][index], scores, rtol=0, atol=1e-5)


@pytest.mark.parametrize("exported", ["all"], indirect=True)
def test_export_scores_with_tensorflow_alone(exported, tmp_path):
    scorer, fitted, _, _, folder = exported
    table = shop.table(7, seed=9, unknown=True)
    raw = raw_rows(fitted.schema, table)
    texts = {n: np.char.encode(a.astype(str), "utf-8") for n, a in raw.items() if a.dtype == "O"}
    np.savez(tmp_path / "raw.npz", **{**raw, **texts})
    script = """
        import sys
        import numpy as np
        import tensorflow as tf
        raw = np.load(sys.argv[2])
        model = tf.saved_model.load(sys.argv[1])
        scores = model.signatures["serving_default"](**{n: tf.constant(raw[n]) for n in raw})
        assert not {"recsys_attn", "pipelines"} & set(sys.modules)
        np.savez(sys.argv[3], **{task: score.numpy() for task, score in scores.items()})
    """
    arguments = [str(folder), str(tmp_path / "raw.npz"), str(tmp_path / "scores.npz")]
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        check=True,
        cwd=tmp_path,
        capture_output=True,
    )
    found = np.load(tmp_path / "scores.npz")
    for task, scores in scorer.score_table(table, fitted, None).items():
        np.testing.assert_allclose(found[task], scores, rtol=0, atol=1e-5)
