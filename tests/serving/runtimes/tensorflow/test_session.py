"""A session computes what TensorFlow's own loader computes, in time, and frees its memory."""

from __future__ import annotations

import contextlib
import functools
import shutil
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from serving.common.background import SerialWorker
from serving.common.errors import (
    DataLoss,
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    Unimplemented,
)
from serving.runtimes.tensorflow import private_api
from serving.runtimes.tensorflow.session import TensorFlowSession
from tests.serving.stubs import ROWS


@pytest.fixture(scope="module")
def session(twofold: Path) -> Iterator[TensorFlowSession]:
    session = TensorFlowSession(twofold)
    yield session
    session.close()


def _saved(path: Path, module: tf.Module, function: Any, dtype: tf.DType) -> TensorFlowSession:
    """A session of a model with one signature, `f`, of one input, `x`."""
    concrete = tf.function(function).get_concrete_function(tf.TensorSpec((None,), dtype, "x"))
    tf.saved_model.save(module, str(path), signatures={"f": concrete})
    return TensorFlowSession(path)


def test_outputs_equal_tensorflows_own(session: TensorFlowSession, twofold: Path) -> None:
    signature = tf.saved_model.load(str(twofold)).signatures["serving_default"]
    expected = signature(**{name: tf.constant(array) for name, array in ROWS.items()})
    assert set(session.definitions) >= {"serving_default", "rank", "pair"}
    assert not [key for key in session.definitions if key.startswith("__")]
    found = session.run("serving_default", ROWS, list(expected), None)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    assert list(session.run("serving_default", ROWS, ["click"], 5.0)) == ["click"]


@pytest.mark.parametrize(("is_ours", "sets"), [(True, 1), (False, 3)])
def test_outputs_of_an_export_are_one_set(
    twofold: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ours: bool, sets: int
) -> None:
    """TensorFlow prepares each set of tensors when it is first asked for, which takes long."""
    shutil.copytree(twofold, tmp_path / "1")
    if is_ours:
        (tmp_path / "1/manifest.json").write_text("{}")
    asked, run = set[tuple[Any, ...]](), private_api.run

    def seen(session: Any, given: Any, wanted: list[Any], options: Any) -> Any:
        asked.add(tuple(wanted))
        return run(session, given, wanted, options)

    monkeypatch.setattr(private_api, "run", seen)
    own = TensorFlowSession(tmp_path / "1")
    asked.clear()
    both = own.run("serving_default", ROWS, ["convert", "click"], None)
    assert list(both) == ["convert", "click"]
    for name, values in both.items():
        found = own.run("serving_default", ROWS, [name], None)
        assert list(found) == [name]
        np.testing.assert_array_equal(found[name], values)
    assert len(asked) == sets
    own.close()


def test_strings_are_returned_as_bytes(session: TensorFlowSession) -> None:
    words = session.run("pair", {"pair": np.float32([[1, 2]])}, ["words"], None)["words"]
    assert (words.dtype, words.shape) == (object, (1, 2))
    assert all(isinstance(word, bytes) for word in words.ravel())


def test_a_model_without_variables_loads(tmp_path: Path) -> None:
    session = _saved(tmp_path, tf.Module(), lambda x: {"y": 2 * x}, tf.float32)
    found = session.run("f", {"x": np.float32([1, 3])}, ["y"], None)["y"]
    np.testing.assert_array_equal(found, [2, 6])
    session.definitions["f"].inputs["x"].name = ""
    with pytest.raises(Unimplemented, match="sparse and ragged"):
        session.run("f", {"x": np.float32([1])}, ["y"], None)
    session.close()


def test_a_table_is_filled_from_an_asset(tmp_path: Path) -> None:
    """In the folder of the version, wherever that is."""
    words = tmp_path / "words.txt"
    words.write_text("a\nb\nc\n", encoding="utf-8")
    module, index = tf.Module(), tf.lookup.TextFileIndex
    module.table = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(
            str(words), tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER
        ),
        1,
    )
    _saved(tmp_path / "1", module, lambda x: {"id": module.table.lookup(x)}, tf.string).close()
    words.unlink()
    session = TensorFlowSession((tmp_path / "1").rename(tmp_path / "2"))
    found = session.run("f", {"x": np.array([b"c", b"a", b"?"], object)}, ["id"], None)
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


def test_a_deadline_ends_the_computation(session: TensorFlowSession) -> None:
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        session.run("wait", {"seconds": np.float32([30])}, ["turns"], 0.1)
    assert time.monotonic() - started < 10
    with pytest.raises(DeadlineExceeded, match="before the computation began"):
        session.run("wait", {"seconds": np.float32([0])}, ["turns"], 0.0)
    forever = float(2**63) / 1e9  # gRPC's value without a deadline
    session.run("wait", {"seconds": np.float32([0])}, ["turns"], forever * 1e6)


def test_errors_of_tensorflow_keep_their_code(session: TensorFlowSession) -> None:
    """Also if a message quotes bytes that are no text."""
    with pytest.raises(InvalidArgument):
        session.run("fail", {"values": np.float32([1, 2])}, ["out"], None)
    example = tf.train.Example()
    example.features.feature["price"].bytes_list.value.append(b"\xff\xfe")
    for content in (example.SerializeToString(), b"\x0a\xff\xfe", b"\xec\xff"):
        with pytest.raises(InvalidArgument, match=r"parse|read|Key"):
            session.run("regress", {"inputs": np.array([content], object)}, ["outputs"], None)


def test_a_failed_assertion_is_the_text_of_the_model(tmp_path: Path) -> None:
    def halves(x: tf.Tensor) -> dict[str, tf.Tensor]:
        length = tf.shape(x)[0]
        tf.debugging.assert_equal(length % 2, 0, "x[0] has no partner")
        return {"y": x[: length // 2]}

    session = _saved(tmp_path, tf.Module(), halves, tf.float32)
    with pytest.raises(InvalidArgument, match=r"^x\[0\] has no partner$"):
        session.run("f", {"x": np.float32([1, 2, 3])}, ["y"], None)
    session.close()


def test_closing_frees_the_graph(twofold: Path) -> None:
    session = TensorFlowSession(twofold)
    graph = weakref.ref(session.graph)
    session.close()
    assert graph() is None


def test_a_damaged_folder_is_data_loss(tmp_path: Path, twofold: Path) -> None:
    with pytest.raises(NotFound, match=r"no saved_model\.pb"):
        TensorFlowSession(tmp_path)
    saved = saved_model_pb2.SavedModel.FromString((twofold / "saved_model.pb").read_bytes())
    saved.meta_graphs[0].graph_def.node.add(name="last", op="Identity", input=["nowhere"])
    for content, words in (
        (b"\x08\x01", "tagged 'serve'"),
        (b"\xff", "is not a SavedModel"),
        (saved.SerializeToString(), "is damaged: .*nowhere"),
    ):
        (tmp_path / "saved_model.pb").write_bytes(content)
        with pytest.raises(DataLoss, match=words):
            TensorFlowSession(tmp_path)


def test_callers_in_their_own_threads_are_limited(twofold: Path) -> None:
    session = TensorFlowSession(twofold, inter_op_threads=3)
    values = {"values": np.float32([1, 2])}
    ask = functools.partial(session.run, "double", values, ["doubled"], in_own_thread=True)
    np.testing.assert_array_equal(ask(timeout=None)["doubled"], [2, 4])
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(session._places)
        with pytest.raises(DeadlineExceeded):
            ask(timeout=0.05)
        assert session.run("double", values, ["doubled"], 5.0), "in a thread pool"
    np.testing.assert_array_equal(ask(timeout=5.0)["doubled"], [2, 4])
    session.close()


def test_low_priority_needs_no_place_of_requests(twofold: Path) -> None:
    """It computes in its own thread: those of the pool have the priority of requests."""
    session = TensorFlowSession(twofold, inter_op_threads=3)
    values = {"values": np.float32([1, 2])}
    worker = SerialWorker("loading", has_low_priority=True)
    with contextlib.ExitStack() as stack:
        stack.callback(worker.stop)
        stack.callback(session.close)
        for _ in range(3):
            stack.enter_context(session._places)
        found = worker.run(lambda: session.run("double", values, ["doubled"], 5.0), 60.0)
    np.testing.assert_array_equal(found["doubled"], [2, 4])
