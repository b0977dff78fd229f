"""Tiny SavedModels whose scores can be worked out by hand.

click = weight * price + number of history entries + 100 * number of tags
convert = letters of the user's name + age, where a missing age counts 0

and of Examples, classify and regress alike: weight * price + letters of the user's name
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from pipelines.common.artifacts import MANIFEST, write_json
from pipelines.export.file_list import FILES, list_files
from pipelines.export.signatures import add_views
from serving.models.model import Model
from serving.runtimes.load import RuntimeOptions, load_runtime

MISSING_INT = -(2**63)
WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"


def write_model(path: Path, weight: float) -> Path:
    """Exports serving_default, rank, double, pair, wait, fail and the signatures of Examples."""
    module = tf.Module()
    module.weight = tf.Variable(weight)

    def present(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(values != "", tf.float32), axis=-1)

    def scores(user, age, history, price, tags):
        known_age = tf.where(age == MISSING_INT, tf.zeros_like(age), age)
        convert = tf.cast(tf.strings.length(user), tf.float32) + tf.cast(known_age, tf.float32)
        read = present(history)
        if price.shape.rank == 2:  # a candidate axis
            read, convert = read[:, None], convert[:, None] + tf.zeros_like(price)
        known_price = tf.where(tf.math.is_nan(price), tf.zeros_like(price), price)
        return {
            "click": module.weight * known_price + read + 100 * present(tags),
            "convert": convert,
        }

    context = {
        "user": tf.TensorSpec((None,), tf.string, "user"),
        "age": tf.TensorSpec((None,), tf.int64, "age"),
        "history": tf.TensorSpec((None, None), tf.string, "history"),
    }

    def candidate(*axes: None) -> dict[str, Any]:
        return {
            "price": tf.TensorSpec(axes, tf.float32, "price"),
            "tags": tf.TensorSpec((*axes, None), tf.string, "tags"),
        }

    signatures = {
        "serving_default": (scores, {**context, **candidate(None)}),
        "rank": (scores, {**context, **candidate(None, None)}),
    }
    signatures |= _of_tensors() | _of_examples(module)
    tf.saved_model.save(
        module,
        str(path),
        signatures={
            key: tf.function(function).get_concrete_function(**inputs)
            for key, (function, inputs) in signatures.items()
        },
    )
    _name_methods(path)
    return path


def _of_tensors() -> dict[str, Any]:
    def wait(seconds):
        end = tf.timestamp() + tf.cast(seconds[0], tf.float64)
        turns = tf.while_loop(lambda i: tf.timestamp() < end, lambda i: (i + 1,), (0,))[0]
        return {"turns": tf.fill(tf.shape(seconds), turns)}

    def fail(values):
        return {"out": tf.reshape(values, (7, -1))}

    def double(values):
        return {"doubled": 2 * values}

    def pair(pair):
        return {"total": tf.reduce_sum(pair, -1), "words": tf.as_string(pair)}

    values = {"values": tf.TensorSpec((None,), tf.float32, "values")}
    return {
        "wait": (wait, {"seconds": tf.TensorSpec((None,), tf.float32, "seconds")}),
        "fail": (fail, values),
        "double": (double, values),
        "pair": (pair, {"pair": tf.TensorSpec((None, 2), tf.float32, "pair")}),
    }


def _of_examples(module: tf.Module) -> dict[str, Any]:
    user, price = tf.io.FixedLenFeature((), tf.string, ""), tf.io.FixedLenFeature((), tf.float32, 0)

    def value(user, price):
        return module.weight * price + tf.cast(tf.strings.length(user), tf.float32)

    def regress(inputs):
        read = tf.io.parse_example(inputs, {"user": user, "price": price})
        return {"outputs": value(**read)}

    def regress_with_context(context, examples):
        shared = tf.io.parse_example(context, {"user": user})
        # Half a point more: so that a test sees which of the two has answered.
        return {"outputs": value(**shared, **tf.io.parse_example(examples, {"price": price})) + 0.5}

    def classify(inputs):
        score = regress(inputs)["outputs"]
        names = tf.tile([["no", "yes"]], (tf.size(score), 1))
        return {"scores": tf.stack([-score, score], 1), "classes": names}

    inputs = {"inputs": tf.TensorSpec((None,), tf.string, "inputs")}
    apart = {name: tf.TensorSpec((None,), tf.string, name) for name in ("context", "examples")}
    return {
        "regress": (regress, inputs),
        "regress_with_context": (regress_with_context, apart),
        "classify": (classify, inputs),
    }


def _name_methods(path: Path) -> None:
    """Saving names every signature's method `predict`."""
    file = path / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    for key in ("classify", "regress"):
        definition = saved.meta_graphs[0].signature_def[key]
        definition.method_name = f"tensorflow/serving/{key}"
    file.write_bytes(saved.SerializeToString())


def with_manifest(exported: Path, target: Path) -> Path:
    """Copies an export as the exporter leaves it: with the mark, more files, and the manifest."""
    shutil.copytree(exported, target)
    add_views(target, {})
    for name in ("assets/words.txt", "assets.extra/notes"):
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_text("some words\nand more")
    write_json(target / MANIFEST, {"name": "tiny", FILES: list_files(target)})
    return target


def write_warmup(
    version: Path, requests: Iterable[Any] = (), records: Iterable[bytes] = ()
) -> None:
    """Puts a warm-up file of Predict requests, or of raw records, into a version's folder."""
    file = version / WARMUP_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    logs = [
        prediction_log_pb2.PredictionLog(
            predict_log=prediction_log_pb2.PredictLog(request=request)
        ).SerializeToString()
        for request in requests
    ]
    with tf.io.TFRecordWriter(str(file)) as writer:
        for record in [*logs, *records]:
            writer.write(record)


def install(exported: Path, base_path: Path, version: int) -> Path:
    """Copies an export in as a version that appears all at once."""
    base_path.mkdir(exist_ok=True)
    draft = base_path / f"draft-{version}"
    shutil.copytree(exported, draft)
    final = base_path / str(version)
    os.rename(draft, final)
    return final


def load_model(name: str, version: int, path: Path) -> Model:
    """Loads a version, without warm-up, batching and limits."""
    return Model(name, version, path, load_runtime(path, RuntimeOptions()))
