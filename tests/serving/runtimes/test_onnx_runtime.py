"""Towers in ONNX Runtime give TensorFlow's scores, and what does not convert stays there."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from serving.common.errors import InvalidArgument
from serving.runtimes import onnx_runtime, onnx_tower
from serving.runtimes.choice import RuntimeChoice, load_runtime
from serving.runtimes.onnx_runtime import OnnxRuntime
from serving.runtimes.tensorflow.session import TensorFlowSession

WORDS = ("a", "b", "c")


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary, an embedding table and a small tower; and a signature of strings alone."""
    rng = np.random.default_rng(0)
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(WORDS), tf.range(1, 4, dtype=tf.int64)), 0
    )
    module.rows = tf.Variable(rng.normal(size=(4, 5)).astype("float32"))
    module.weights = tf.Variable(rng.normal(size=(6, 1)).astype("float32"))

    @tf.function
    def score(word: tf.Tensor, price: tf.Tensor) -> dict[str, tf.Tensor]:
        embedded = tf.gather(module.rows, module.table.lookup(word))
        known = tf.logical_not(tf.math.is_nan(price))
        logarithm = tf.where(known, tf.math.log1p(price), 0.0)
        joined = tf.concat([embedded, logarithm[:, None]], axis=1)
        return {"score": tf.sigmoid(joined @ module.weights)[:, 0], "price": price * 2.0}

    @tf.function
    def upper(word: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"word": tf.strings.upper(word)}

    word = tf.TensorSpec((None,), tf.string, "word")
    price = tf.TensorSpec((None,), tf.float32, "price")
    path = tmp_path_factory.mktemp("dense") / "1"
    signatures = {
        "serving_default": score.get_concrete_function(word, price),
        "upper": upper.get_concrete_function(word),
    }
    tf.saved_model.save(module, str(path), signatures=signatures)
    return path


def _inputs(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(rows)
    words = np.array([word.encode() for word in rng.choice([*WORDS, "?"], rows)], object)
    return {"word": words, "price": rng.random(rows).astype("float32")}


def test_a_tower_scores_as_tensorflow_does(dense: Path, tmp_path: Path) -> None:
    runtime = OnnxRuntime(dense, TensorFlowSession(dense), cache_folder=tmp_path)
    assert set(runtime.towers) == {"serving_default"}, "strings stay in TensorFlow"
    tensorflow = TensorFlowSession(dense)
    for rows in (1, 7):
        for inputs in (_inputs(rows), {**_inputs(rows), "price": np.full(rows, np.nan, "f")}):
            found = runtime.run("serving_default", inputs, ["score", "price"], 5.0)
            expected = tensorflow.run("serving_default", inputs, ["score", "price"], 5.0)
            assert not np.isnan(found["score"]).any()
            for name, values in expected.items():
                np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6)
    word = np.array([b"a"], object)
    assert runtime.run("upper", {"word": word}, ["word"], None)["word"] == [b"A"]
    wrong = {"word": word, "price": np.float32([1, 2, 3])}
    with pytest.raises(InvalidArgument):
        runtime.run("serving_default", wrong, ["score"], None)
    runtime.close()
    tensorflow.close()


def test_a_converted_tower_is_kept(
    dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = OnnxRuntime(dense, TensorFlowSession(dense), cache_folder=tmp_path / "cache")
    expected = first.run("serving_default", _inputs(3), ["score"], None)
    first.close()
    monkeypatch.setattr(onnx_tower, "converted", None)
    again = OnnxRuntime(dense, TensorFlowSession(dense), cache_folder=tmp_path / "cache")
    assert set(again.towers) == {"serving_default"}
    found = again.run("serving_default", _inputs(3), ["score"], None)
    np.testing.assert_array_equal(found["score"], expected["score"])
    again.close()


def test_a_tower_that_is_kept_damaged_or_cannot_be_kept_is_converted_again(
    dense: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache, no_folder = tmp_path / "cache", tmp_path / "file"
    no_folder.touch()
    for folder, words in (
        (cache, ""),
        (cache, "Signatures serving_default are converted again"),
        (no_folder, f"No converted model is kept in {no_folder}"),
    ):
        runtime = OnnxRuntime(dense, TensorFlowSession(dense), cache_folder=folder)
        assert set(runtime.towers) == {"serving_default"}
        runtime.close()
        assert words in caplog.text
        for file in cache.iterdir():
            file.write_bytes(b"damaged")


def test_a_tower_that_scores_otherwise_is_not_used(
    dense: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(onnx_runtime, "TOLERANCE", -1.0)
    with caplog.at_level(logging.INFO, "serving"):
        runtime = OnnxRuntime(dense, TensorFlowSession(dense))
    assert not runtime.towers
    reasons = [record.getMessage() for record in caplog.records]
    assert any("would be another than before" in reason for reason in reasons)
    assert any("StringUpper" in reason for reason in reasons), "says which operation"
    assert runtime.run("serving_default", _inputs(2), ["score"], None)["score"].shape == (2,)
    runtime.close()


@pytest.mark.parametrize("is_faster", [False, True])
def test_auto_says_what_it_measured_and_keeps_what_it_decided(
    dense: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_faster: bool,
) -> None:
    measure = OnnxRuntime._is_faster

    def decide(self: OnnxRuntime, *arguments: Any) -> bool:
        measure(self, *arguments)
        return is_faster

    monkeypatch.setattr(OnnxRuntime, "_is_faster", decide)
    for times in (1, 1):
        with caplog.at_level(logging.INFO, "serving"):
            runtime = load_runtime(dense, RuntimeChoice("auto", cache_folder=tmp_path))
        measured = [r for r in caplog.records if "ms in TensorFlow and" in r.getMessage()]
        assert len(measured) == times
        assert set(runtime.towers) == ({"serving_default"} if is_faster else set())
        assert runtime.run("serving_default", _inputs(2), ["score"], None)["score"].shape == (2,)
        runtime.close()
    forced = load_runtime(dense, RuntimeChoice("onnx", cache_folder=tmp_path))
    assert set(forced.towers) == {"serving_default"}, "what auto decided is its own"
    forced.close()
