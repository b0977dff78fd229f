"""TensorFlow in this process: one session a version, which owns all that the version needs."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
from tensorflow.python.client import pywrap_tf_session

from serving.common.errors import (
    DataLoss,
    DeadlineExceeded,
    InvalidArgument,
    Unimplemented,
    from_code,
)
from serving.config.server_config import CPUS
from serving.runtimes.base import LONGEST_SECONDS
from serving.runtimes.tensorflow import saved_model
from serving.runtimes.tensorflow.start_values import take_start_values
from serving.runtimes.tensorflow.value_check import ValueCheck

_OWN_THREAD = -1  # in the place of the number of a pool of threads


class TensorFlowSession:
    """A SavedModel in a session of its own.

    A session frees its variables and tables when it is closed, which a graph that was loaded
    eagerly does not, and it takes arrays and a deadline as they are.

    Args:
        path: The SavedModel's folder.
        intra_op_threads: Threads that one operation is spread over; 0 for all cores.
        inter_op_threads: Operations that run at once; 0 for as many as cores.

    All sessions of a process share these threads; the first one decides how many there are.

    Raises:
        ServingError: The folder holds no SavedModel that can be loaded.
    """

    def __init__(self, path: Path, *, intra_op_threads: int = 1, inter_op_threads: int = 0) -> None:
        meta = saved_model.read_graph(path)
        self.definitions: Mapping[str, meta_graph_pb2.SignatureDef] = saved_model.definitions_of(
            meta
        )
        self.graph = tf.Graph()
        self._session = tf.compat.v1.Session(
            graph=self.graph, config=_config(meta, intra_op_threads, inter_op_threads)
        )
        self._endpoints: dict[str, Any] = {}
        self._places = _places(inter_op_threads)
        try:
            with _serving_errors(), self.graph.as_default():
                self._restore(meta, path)
        except BaseException:
            self.close()
            raise
        _return_memory()

    def _restore(self, meta: meta_graph_pb2.MetaGraphDef, path: Path) -> None:
        values = take_start_values(meta)
        try:
            tf.graph_util.import_graph_def(
                meta.graph_def, name="", producer_op_list=meta.meta_info_def.stripped_op_list
            )
            require_values = ValueCheck(meta)
            if meta.HasField("saver_def") and list(path.glob(f"{saved_model.VARIABLES}.*")):
                saver = tf.compat.v1.train.Saver(saver_def=meta.saver_def)
                saver.restore(self._session, str(path / saved_model.VARIABLES))
        except ValueError as error:  # what the graph or the checkpoint's index is not
            raise DataLoss(f"{path} is damaged: {error}") from error
        operation = saved_model.init_operation(meta)
        if operation is not None:
            self._session.run(operation, {**values, **dict(saved_model.assets(meta, path))})
        require_values(self._session)

    def run(
        self,
        key: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float | None,
        in_own_thread: bool = False,
    ) -> dict[str, np.ndarray]:
        """Outputs by name, as `Runtime` says; `in_own_thread` is that of `run_tensors`."""
        definition = self.definitions[key]
        return self.run_tensors(
            {definition.inputs[name].name: array for name, array in inputs.items()},
            {name: definition.outputs[name].name for name in outputs},
            timeout,
            in_own_thread,
        )

    def run_tensors(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Mapping[str, str],
        timeout: float | None,
        in_own_thread: bool = False,
    ) -> dict[str, np.ndarray]:
        """The tensors that `fetches` names, by its keys.

        Args:
            feeds: Arrays by the name of the tensor.
            fetches: Names of tensors, which are no feeds, by any names.
            timeout: Seconds that it may take; None for ever.
            in_own_thread: Whether the calling thread computes, one operation after the other,
                and does not look at the clock once it has begun. That is cheaper.
        """
        # `Session.run` looks at each feed and fetch anew, which with 39 features takes as long as
        # the model itself: this is the call that it makes in the end.
        given = {self._endpoint(name): array for name, array in feeds.items()}
        wanted = [self._endpoint(name) for name in fetches.values() if name not in feeds]
        with contextlib.ExitStack() as stack:
            if in_own_thread:
                timeout = stack.enter_context(_place(self._places, timeout))
            options = stack.enter_context(_options(timeout, in_own_thread))
            stack.enter_context(_serving_errors())
            found = iter(
                pywrap_tf_session.TF_SessionRun_wrapper(
                    self._session._session, options, given, wanted, [], None
                )
            )
        return {key: feeds[name] if name in feeds else next(found) for key, name in fetches.items()}

    def add(
        self,
        prefix: str,
        part: graph_pb2.GraphDef,
        definition: meta_graph_pb2.SignatureDef,
        tensors: Iterable[str],
    ) -> dict[str, str]:
        """Adds another form of a signature's graph, on the same inputs, variables and tables.

        Args:
            prefix: What its nodes are named after.
            part: Nodes, of which the inputs of the signature may be some.
            definition: The signature.
            tensors: Names of tensors in `part`.

        Returns:
            What these tensors are called here.
        """
        inside = {node.name for node in part.node}
        own = {info.name: info.name for info in definition.inputs.values()}
        share_by_name(part)
        with self.graph.as_default():
            scope = self.graph.unique_name(f"part_of_{prefix}")
            tf.import_graph_def(
                part,
                {
                    name: self.graph.get_tensor_by_name(name)
                    for name in own
                    if name.partition(":")[0] in inside
                },
                name=f"{scope}/",
            )
        self._session._extend_graph()
        _return_memory()
        return {name: own.get(name, f"{scope}/{name}") for name in tensors}

    def _endpoint(self, name: str) -> Any:
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            try:
                endpoint = self.graph.get_tensor_by_name(name)._as_tf_output()
            except (KeyError, ValueError) as error:
                raise Unimplemented(
                    f"A signature names the tensor {name!r}, which the graph does not have: sparse "
                    "and ragged tensors are served in their parts only."
                ) from error
            self._endpoints[name] = endpoint
        return endpoint

    def close(self) -> None:
        """Frees variables, tables and the graph."""
        self._endpoints = {}
        self._session.close()
        self._session = self.graph = None
        _return_memory()


def share_by_name(part: graph_pb2.GraphDef) -> None:
    """Has its nodes find the variables and tables of the session's nodes of the same names."""
    for node in part.node:
        if "shared_name" in node.attr and not node.attr["shared_name"].s:
            node.attr["shared_name"].s = node.name.encode()


@functools.cache
def _places(inter_op_threads: int) -> threading.Semaphore:
    """The callers of all sessions that may compute in their own threads at once."""
    return threading.Semaphore(inter_op_threads or CPUS)


@contextlib.contextmanager
def _place(places: threading.Semaphore, timeout: float | None) -> Iterator[float | None]:
    """Waits for a place, and gives the seconds that are left."""
    started = time.monotonic()
    if not places.acquire(timeout=None if timeout is None else max(timeout, 0.0)):
        raise DeadlineExceeded("The deadline passed before the computation began.")
    try:
        yield None if timeout is None else timeout - (time.monotonic() - started)
    finally:
        places.release()


def _threads(intra: int, inter: int) -> config_pb2.ConfigProto:
    return config_pb2.ConfigProto(
        intra_op_parallelism_threads=intra, inter_op_parallelism_threads=inter
    )


def _config(meta: meta_graph_pb2.MetaGraphDef, intra: int, inter: int) -> config_pb2.ConfigProto:
    config = _threads(intra, inter)
    config.allow_soft_placement = True
    if meta.graph_def.library.function:
        # TensorFlow 2 puts signatures into functions, and each is optimised where it is called.
        # To optimise the graph around them too copies all vocabularies again and again.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    else:
        config.graph_options.rewrite_options.meta_optimizer_iterations = (
            rewriter_config_pb2.RewriterConfig.ONE
        )
    return config


@contextlib.contextmanager
def _options(timeout: float | None, in_own_thread: bool) -> Iterator[Any]:
    if timeout is None and not in_own_thread:
        yield None
        return
    options = config_pb2.RunOptions(inter_op_thread_pool=_OWN_THREAD if in_own_thread else 0)
    if timeout is not None:
        if timeout <= 0:
            raise DeadlineExceeded("The deadline had passed before the computation began.")
        options.timeout_in_ms = math.ceil(min(timeout, LONGEST_SECONDS) * 1000)
    buffer = pywrap_tf_session.TF_NewBufferFromString(options.SerializeToString())
    try:
        yield buffer
    finally:
        pywrap_tf_session.TF_DeleteBuffer(buffer)


@contextlib.contextmanager
def _serving_errors() -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as error:
        raise from_code(error.error_code, error.message) from error
    except UnicodeDecodeError as error:  # of TensorFlow's own words, which quote what was sent
        words = error.object.decode(errors="replace")
        raise InvalidArgument(f"TensorFlow cannot read what was sent: {words}") from error


def _return_memory() -> None:
    """Gives freed memory back to the system, which the C library keeps: half of a large model.

    Otherwise the library does so when Python frees something next, and holds its lock meanwhile.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
