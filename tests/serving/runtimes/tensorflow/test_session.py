"""A session computes what TensorFlow's own loader computes, in time, and frees what it held."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from serving.common.errors import (
    DataLoss,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    Unimplemented,
)
from serving.runtimes.tensorflow.session import TensorFlowSession
from tests.serving.stubs import ROWS


def _save(path: Path, module: tf.Module, **signatures: Any) -> Path:
    tf.saved_model.save(module, str(path), signatures=signatures)
    return path


def _double(module: tf.Module) -> Any:
    function = tf.function(lambda x: {"y": 2 * x})
    module.function = function
    return function.get_concrete_function(tf.TensorSpec((None,), tf.float32, "x"))


def test_it_computes_what_tensorflows_own_loader_computes(twofold: Path) -> None:
    session = TensorFlowSession(twofold)
    expected = tf.saved_model.load(str(twofold)).signatures["serving_default"](
        **{name: tf.constant(array) for name, array in ROWS.items()}
    )
    assert set(session.definitions) >= {"serving_default", "rank", "pair"}
    assert not [key for key in session.definitions if key.startswith("__")]
    found = session.run("serving_default", ROWS, list(expected), None)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    only = session.run("serving_default", ROWS, ["click"], 5.0)
    assert list(only) == ["click"], "only what is asked for"
    session.close()


def test_a_string_comes_back_as_bytes(twofold: Path) -> None:
    session = TensorFlowSession(twofold)
    words = session.run("pair", {"pair": np.float32([[1, 2]])}, ["words"], None)["words"]
    assert words.dtype == object
    assert words.shape == (1, 2)
    assert all(isinstance(word, bytes) for word in words.ravel())
    session.close()


def test_a_model_of_constants_alone_loads(tmp_path: Path) -> None:
    module = tf.Module()
    session = TensorFlowSession(_save(tmp_path / "1", module, double=_double(module)))
    x = np.float32([1, 3])
    np.testing.assert_array_equal(session.run("double", {"x": x}, ["y"], None)["y"], 2 * x)
    session.close()


def test_a_table_from_an_asset_is_filled(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a\nb\nc\n", encoding="utf-8")
    module = tf.Module()
    module.table = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(
            str(words),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        ),
        1,
    )
    function = tf.function(lambda word: {"id": module.table.lookup(word)})
    concrete = function.get_concrete_function(tf.TensorSpec((None,), tf.string, "word"))
    exported = _save(tmp_path / "1", module, ids=concrete)
    words.unlink()
    moved = exported.rename(tmp_path / "2")
    session = TensorFlowSession(moved)
    found = session.run("ids", {"word": np.array([b"c", b"a", b"?"], object)}, ["id"], None)
    np.testing.assert_array_equal(found["id"], [2, 0, 3])
    session.close()


def test_a_graph_of_tensorflow_1_loads(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, (None,), "x")
        weight = v1.get_variable("weight", initializer=3.0, use_resource=False)
        y = x * weight
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(str(tmp_path / "1"))
        define = v1.saved_model.signature_def_utils.predict_signature_def
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"scale": define({"x": x}, {"y": y, "same": x})}
        )
        builder.save()
    found = TensorFlowSession(tmp_path / "1").run(
        "scale", {"x": np.float32([1, 2])}, ["y", "same"], None
    )
    np.testing.assert_array_equal(found["y"], [3, 6])
    np.testing.assert_array_equal(found["same"], [1, 2], "a tensor that is fed and fetched")


def test_a_deadline_ends_the_computation(twofold: Path) -> None:
    session = TensorFlowSession(twofold)
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        session.run("wait", {"seconds": np.float32([30])}, ["turns"], 0.1)
    assert time.monotonic() - started < 10
    forever = float(2**63) / 1e9  # what gRPC gives a caller without a deadline
    session.run("wait", {"seconds": np.float32([0])}, ["turns"], forever * 1e6)
    with pytest.raises(DeadlineExceeded, match="before the computation began"):
        session.run("wait", {"seconds": np.float32([0])}, ["turns"], 0.0)
    session.close()


def test_threads_share_it(twofold: Path) -> None:
    session = TensorFlowSession(twofold)
    found: dict[int, float] = {}

    def run(number: int) -> None:
        inputs = {"pair": np.float32([[number, 1]])}
        found[number] = float(session.run("pair", inputs, ["total"], 5.0)["total"][0])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number + 1.0 for number in range(7)}
    session.close()


def test_tensorflows_errors_keep_their_code(twofold: Path) -> None:
    session = TensorFlowSession(twofold)
    with pytest.raises(InvalidArgument):
        session.run("fail", {"values": np.float32([1, 2])}, ["out"], None)
    session.close()


def test_what_has_no_tensor_of_its_own_is_refused(tmp_path: Path) -> None:
    module = tf.Module()
    session = TensorFlowSession(_save(tmp_path / "1", module, double=_double(module)))
    session.definitions["double"].inputs["x"].name = ""
    with pytest.raises(Unimplemented, match="sparse and ragged"):
        session.run("double", {"x": np.float32([1])}, ["y"], None)
    session.close()


def test_closing_frees_the_graph(twofold: Path) -> None:
    session = TensorFlowSession(twofold)
    graph = weakref.ref(session.graph)
    session.close()
    gc.collect()
    assert graph() is None


def test_a_damaged_folder_says_so(tmp_path: Path, twofold: Path) -> None:
    with pytest.raises(NotFound, match=r"no saved_model\.pb"):
        TensorFlowSession(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(DataLoss, match="tagged 'serve'"):
        TensorFlowSession(tmp_path)
    saved = saved_model_pb2.SavedModel.FromString((twofold / "saved_model.pb").read_bytes())
    saved.meta_graphs[0].graph_def.node.add(name="last", op="Identity", input=["nowhere"])
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    with pytest.raises(DataLoss, match=r"is damaged: .*nowhere"):
        TensorFlowSession(tmp_path)


def test_an_error_that_quotes_what_was_sent_need_not_be_text(twofold: Path) -> None:
    session = TensorFlowSession(twofold)
    example = tf.train.Example()
    example.features.feature["price"].bytes_list.value.append(b"\xff\xfe")
    for content in (example.SerializeToString(), b"\x0a\xff\xfe", b"\xec\xff"):
        with pytest.raises(InvalidArgument, match=r"parse|read|Key"):
            session.run("regress", {"inputs": np.array([content], object)}, ["outputs"], None)
    session.close()


def test_callers_compute_in_their_own_threads_as_many_at_once_as_there_are_places(
    twofold: Path,
) -> None:
    """Who finds no place until the deadline does not compute."""
    session = TensorFlowSession(twofold, inter_op_threads=3)
    values = {"values": np.float32([1, 2])}
    ask = functools.partial(session.run, "double", values, ["doubled"], in_own_thread=True)
    np.testing.assert_array_equal(ask(timeout=None)["doubled"], [2, 4])
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(session._places)
        with pytest.raises(DeadlineExceeded):
            ask(timeout=0.05)
        assert session.run("double", values, ["doubled"], 5.0), "in a pool of threads"
    np.testing.assert_array_equal(ask(timeout=5.0)["doubled"], [2, 4])
    session.close()
