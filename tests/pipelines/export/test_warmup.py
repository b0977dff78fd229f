"""The warm-up file holds requests that the export can replay."""

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from pipelines.export.signatures import views
from pipelines.export.warmup import WARMUP_FILE
from tests.support import shop
from tests.support.exports import write_linear_export
from tests.support.once import once


def read(folder):
    records = tf.data.TFRecordDataset(str(folder / WARMUP_FILE)).as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record) for record in records]


def requests(logs, kind):
    return [getattr(log, kind).request for log in logs if log.WhichOneof("log_type") == kind]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """An export's folder and the records of its warm-up file."""
    folder = once(tmp_path_factory, "linear-export", write_linear_export) / "3"
    return folder, read(folder)


def test_both_signatures_are_replayed(written):
    folder, logs = written
    found = requests(logs, "predict_log")
    names = [request.model_spec.signature_name for request in found]
    assert names == ["serving_default"] * 3 + ["rank"] * 3
    loaded = tf.saved_model.load(str(folder))
    for request in found:
        assert request.model_spec.name == "shop"
        inputs = {name: tf.constant(tf.make_ndarray(p)) for name, p in request.inputs.items()}
        assert inputs.keys() == {feature.name for feature in shop.SCHEMA.features}
        scores = loaded.signatures[request.model_spec.signature_name](**inputs)
        candidates = inputs["item"].shape
        assert {task: s.shape for task, s in scores.items()} == dict.fromkeys(
            ("click", "buy"), candidates
        )


def test_warm_up_covers_examples_with_and_without_context(written):
    _, logs = written
    multi = requests(logs, "multi_inference_log")
    methods = {
        name: view.method for name, view in views(shop.SCHEMA).items() if view.of == "examples"
    }
    for request in multi:
        assert {t.model_spec.signature_name: t.method_name for t in request.tasks} == methods
        assert {t.model_spec.name for t in request.tasks} == {"shop"}
    for kind, signature in (("classify_log", "classify"), ("regress_log", "regress")):
        found = requests(logs, kind)
        assert [r.model_spec.signature_name for r in found] == [signature] * 2
        assert {r.model_spec.name for r in found} == {"shop"}
        assert [r.input for r in found] == [r.input for r in multi]
    rows, request = (r.input for r in multi)
    sides = [
        {f.name for f in shop.SCHEMA.features if f.side == s} for s in ("context", "candidate")
    ]
    shared = request.example_list_with_context
    assert set(shared.context.features.feature) <= sides[0]
    assert len(rows.example_list.examples) == len(shared.examples) > 0
    for row, candidate in zip(rows.example_list.examples, shared.examples, strict=True):
        assert set(candidate.features.feature) <= sides[1]
        candidate.features.MergeFrom(shared.context.features)
        assert candidate == row
