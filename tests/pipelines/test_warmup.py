"""The warm-up file is a TFRecord of PredictionLog that the export itself can replay."""

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from pipelines.warmup import WARMUP_FILE, write_warmup
from tests.support import shop
from tests.support.exports import write_export


def read(folder):
    records = tf.data.TFRecordDataset(str(folder / WARMUP_FILE)).as_numpy_iterator()
    logs = [prediction_log_pb2.PredictionLog.FromString(record) for record in records]
    assert all(log.WhichOneof("log_type") == "predict_log" for log in logs)
    return [log.predict_log.request for log in logs]


def test_both_signatures_are_replayed(tmp_path):
    fitted = shop.fitted()
    write_export(tmp_path / "3", shop.linear_model(fitted), fitted, warmup_requests=3)
    found = read(tmp_path / "3")
    names = [request.model_spec.signature_name for request in found]
    assert names == ["serving_default"] * 3 + ["rank"] * 3
    loaded = tf.saved_model.load(str(tmp_path / "3"))
    for request in found:
        assert request.model_spec.name == "shop"
        inputs = {name: tf.constant(tf.make_ndarray(p)) for name, p in request.inputs.items()}
        assert inputs.keys() == {feature.name for feature in fitted.schema.features}
        scores = loaded.signatures[request.model_spec.signature_name](**inputs)
        candidates = inputs["item"].shape
        assert {task: score.shape for task, score in scores.items()} == {
            "click": candidates,
            "buy": candidates,
        }


def test_there_may_be_no_request(tmp_path):
    write_warmup(tmp_path, "m", [])
    assert read(tmp_path) == []


def test_arrays_of_every_type_survive(tmp_path):
    arrays = {
        "string": np.array(["\u00fcber", "", "nul\0in"], object),
        "int64": np.array([[np.iinfo("int64").min, 2**62]]),
        "float32": np.array([[0.1], [np.nan]], "float32"),
    }
    write_warmup(tmp_path, "m", [("rank", arrays)])
    (request,) = read(tmp_path)
    for name, array in arrays.items():
        found = tf.make_ndarray(request.inputs[name])
        if name == "string":
            found = np.array([value.decode() for value in found], object)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype
