"""TensorFlow in this process: one session for each version, with its variables and tables."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2

from serving.common.errors import (
    DataLoss,
    DeadlineExceeded,
    InvalidArgument,
    Unimplemented,
    from_code,
)
from serving.common.priority import has_low_priority
from serving.common.request import LONGEST_SECONDS
from serving.config.server_config import CPUS
from serving.runtimes.tensorflow import private_api, saved_model
from serving.runtimes.tensorflow.graph_import import import_graph
from serving.runtimes.tensorflow.start_values import take_start_values
from serving.runtimes.tensorflow.value_check import ValueCheck

_FUNCTION_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# The model's text in the message of `tf.debugging.assert_equal` and the like.
_ASSERTION = re.compile(r"assertion failed: \[(.+?)\] \[Condition ")
_OWN_THREAD = -1  # instead of the number of a thread pool


class TensorFlowSession:
    """A SavedModel in a session of its own.

    Closing a session frees its variables and tables, which a graph that `tf.saved_model.load`
    loaded does not do. A session also takes NumPy arrays and a deadline.

    Args:
        path: The SavedModel's folder.
        intra_op_threads: Threads of one operation; 0 for all cores.
        inter_op_threads: Operations that run at the same time; 0 for as many as cores. All
            sessions of a process share the threads that the first one starts.

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
        self._calls = _calls(meta, self.definitions) if saved_model.is_ours(path) else {}
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
            import_graph(meta)
            require_values = ValueCheck(meta)
            if meta.HasField("saver_def") and list(path.glob(f"{saved_model.VARIABLES}.*")):
                saver = tf.compat.v1.train.Saver(saver_def=meta.saver_def)
                saver.restore(self._session, str(path / saved_model.VARIABLES))
        except ValueError as error:  # an invalid graph, or an invalid index of the checkpoint
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
        """Returns outputs by name, as `Runtime` says; see `run_tensors` for `in_own_thread`."""
        definition = self.definitions[key]
        names = {name: definition.outputs[name].name for name in outputs}
        # TensorFlow prepares each new set of tensors for a third of a second, and a function
        # computes all of its own anyway.
        fetched = {t: t for name in names.values() for t in self._calls.get(name, [name])}
        tensors = self.run_tensors(
            {definition.inputs[name].name: array for name, array in inputs.items()},
            fetched,
            timeout,
            in_own_thread,
        )
        return {name: tensors[tensor] for name, tensor in names.items()}

    def run_tensors(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Mapping[str, str],
        timeout: float | None,
        in_own_thread: bool = False,
    ) -> dict[str, np.ndarray]:
        """Returns the tensors of `fetches` by its keys.

        Args:
            feeds: Arrays by tensor name.
            fetches: Tensor names by any key.
            timeout: Seconds that the computation may take; None for no limit.
            in_own_thread: Whether the calling thread computes, one operation after the other.
                This is cheaper, but the timeout counts only until the computation starts. A
                thread of low priority always does: the thread pool has the priority of requests.
        """
        in_own_thread = in_own_thread or has_low_priority()
        arrays = {self._endpoint(name): array for name, array in feeds.items()}
        endpoints = [self._endpoint(name) for name in fetches.values() if name not in feeds]
        with contextlib.ExitStack() as stack:
            if in_own_thread:
                timeout = stack.enter_context(_place(self._places, timeout))
            options = _options(timeout, in_own_thread)
            stack.enter_context(_serving_errors())
            results = iter(private_api.run(self._session, arrays, endpoints, options))
        return {
            key: feeds[name] if name in feeds else next(results) for key, name in fetches.items()
        }

    def add(
        self,
        prefix: str,
        part: graph_pb2.GraphDef,
        definition: meta_graph_pb2.SignatureDef,
        tensors: Iterable[str],
    ) -> dict[str, str]:
        """Adds another form of a signature's graph, on the same inputs, variables and tables.

        Args:
            prefix: Prefix of the new nodes' names.
            part: The nodes; inputs of the signature may be among them.
            definition: The signature.
            tensors: Names of tensors in `part`.

        Returns:
            The names of these tensors in the session.
        """
        nodes = {node.name for node in part.node}
        inputs = {info.name: info.name for info in definition.inputs.values()}
        share_by_name(part)
        with self.graph.as_default():
            scope = self.graph.unique_name(f"part_of_{prefix}")
            tf.import_graph_def(
                part,
                {
                    name: self.graph.get_tensor_by_name(name)
                    for name in inputs
                    if name.partition(":")[0] in nodes
                },
                name=f"{scope}/",
            )
        private_api.extend(self._session)
        _return_memory()
        return {name: inputs.get(name, f"{scope}/{name}") for name in tensors}

    def _endpoint(self, name: str) -> Any:
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            try:
                endpoint = private_api.endpoint(self.graph.get_tensor_by_name(name))
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
        gc.collect()  # a graph refers to itself; with 39 fields it takes about 18 MB
        _return_memory()


def _calls(
    meta: meta_graph_pb2.MetaGraphDef, definitions: Mapping[str, meta_graph_pb2.SignatureDef]
) -> dict[str, list[str]]:
    """Returns, by tensor of a function that signatures name, all such tensors of the function."""
    functions = {node.name for node in meta.graph_def.node if node.op in _FUNCTION_CALLS}
    names = {info.name for one in definitions.values() for info in one.outputs.values()}
    outputs_by_node: dict[str, list[str]] = {}
    for name in sorted(names):
        outputs_by_node.setdefault(name.partition(":")[0], []).append(name)
    groups = [outputs_by_node[call] for call in functions & outputs_by_node.keys()]
    return {name: group for group in groups for name in group}


def share_by_name(part: graph_pb2.GraphDef) -> None:
    """Makes nodes share the variables and tables of the session's nodes of the same names."""
    for node in part.node:
        if "shared_name" in node.attr and not node.attr["shared_name"].s:
            node.attr["shared_name"].s = node.name.encode()


@functools.cache
def _places(inter_op_threads: int) -> threading.Semaphore:
    """Limits the callers of all sessions that compute in their own threads at the same time."""
    return threading.Semaphore(inter_op_threads or CPUS)


@contextlib.contextmanager
def _place(places: threading.Semaphore, timeout: float | None) -> Iterator[float | None]:
    """Waits for a place, and yields the seconds that are left."""
    if has_low_priority():  # the places are those of requests
        yield timeout
        return
    started = time.monotonic()
    if not places.acquire(timeout=None if timeout is None else max(timeout, 0.0)):
        raise DeadlineExceeded("The deadline passed before the computation began.")
    try:
        yield None if timeout is None else timeout - (time.monotonic() - started)
    finally:
        places.release()


def _config(meta: meta_graph_pb2.MetaGraphDef, intra: int, inter: int) -> config_pb2.ConfigProto:
    config = config_pb2.ConfigProto(
        intra_op_parallelism_threads=intra,
        inter_op_parallelism_threads=inter,
        allow_soft_placement=True,
    )
    if meta.graph_def.library.function:
        # TensorFlow 2 puts signatures into functions and optimises each function at its call.
        # Optimising the graph around them would copy all vocabularies each time.
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    else:
        config.graph_options.rewrite_options.meta_optimizer_iterations = (
            rewriter_config_pb2.RewriterConfig.ONE
        )
    return config


def _options(timeout: float | None, in_own_thread: bool) -> config_pb2.RunOptions | None:
    if timeout is None and not in_own_thread:
        return None
    options = config_pb2.RunOptions(inter_op_thread_pool=_OWN_THREAD if in_own_thread else 0)
    if timeout is not None:
        if timeout <= 0:
            raise DeadlineExceeded("The deadline passed before the computation began.")
        options.timeout_in_ms = math.ceil(min(timeout, LONGEST_SECONDS) * 1000)
    return options


@contextlib.contextmanager
def _serving_errors() -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as error:
        # Of a failed assertion clients need the model's text, not the tensors that were compared.
        assertion = _ASSERTION.search(error.message)
        raise from_code(error.error_code, assertion[1] if assertion else error.message) from error
    except UnicodeDecodeError as error:  # TensorFlow's message quotes the request
        text = error.object.decode(errors="replace")
        raise InvalidArgument(f"TensorFlow cannot read the request: {text}") from error


def _return_memory() -> None:
    """Returns freed memory to the system; the C library would keep half of a large model."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
