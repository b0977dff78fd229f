"""The tower of a function in ONNX Runtime: made from the graph, or as it was kept."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, types_pb2

from serving.common.errors import FailedPrecondition
from serving.runtimes.onnx_cache import TowerCache
from serving.runtimes.onnx_convert import Shape, converted, convertible
from serving.runtimes.samples import made_up
from serving.runtimes.tensorflow import saved_model
from serving.runtimes.tensorflow.cut_graph import Split, flattened, split
from serving.runtimes.tensorflow.graph import OUTLET, Function, needed_by, outlet, with_outlets
from serving.runtimes.tensorflow.session import TensorFlowSession

_LOGGER = logging.getLogger(__name__)
_NOTHING = ("Const", "Identity")  # operations that are no tower
SIZES = ((2, 3), (5, 7))  # rows and lengths of two requests: what differs is open


class TowerFailed(Exception):
    """ONNX Runtime refuses what it is given."""


@dataclass(frozen=True)
class Tower:
    """TensorFlow up to the cut, and ONNX Runtime from there.

    Attributes:
        tensorflow: Computes the first part.
        session: Computes the second.
        cut: Inputs of the session -> tensors of the first part.
        behind: Outputs of the function -> outputs of the session.
        before: Other outputs of the function -> tensors of the first part, which has them.
    """

    tensorflow: TensorFlowSession
    session: Any
    cut: Mapping[str, str]
    behind: Mapping[str, str]
    before: Mapping[str, str]
    part: Any  # the session's options where not all of its outputs are wanted

    @property
    def same(self) -> dict[str, str]:
        """The outputs of the function that it gives, by their own names."""
        return {name: name for name in (*self.behind, *self.before)}

    def gives(self, outputs: Iterable[str]) -> bool:
        """Whether it has all of some outputs."""
        return all(name in self.behind or name in self.before for name in outputs)

    def run(
        self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str], timeout: float | None
    ) -> dict[str, np.ndarray]:
        """Outputs of the function.

        Args:
            feeds: Arrays by the names of the function's inputs.
            outputs: Their names.
            timeout: Seconds that the first part may take.
        """
        behind = [name for name in outputs if name in self.behind]
        first = {name: self.before[name] for name in outputs if name not in self.behind}
        if behind:
            first.update(self.cut)
        found = self.tensorflow.run_tensors(feeds, first, timeout)
        if behind:
            given = {name: found.pop(name) for name in self.cut}
            options = self.part if len(behind) < len(self.behind) else None
            try:
                results = self.session.run([self.behind[name] for name in behind], given, options)
            except Exception as error:  # it has no base of its own
                raise TowerFailed(str(error)) from error
            found.update(zip(behind, results, strict=True))
        return found


class Towers:
    """Makes the towers of a SavedModel.

    Args:
        tensorflow: The SavedModel in TensorFlow.
        path: Its folder.
        cache: Keeps what was converted.
        threads: Threads that one operation is spread over; 0 for all cores.
    """

    def __init__(
        self, tensorflow: TensorFlowSession, path: Path, cache: TowerCache, threads: int
    ) -> None:
        self._tensorflow = tensorflow
        self._cache = cache
        self._threads = threads
        self._path = path

    def __call__(self, function: Function) -> Tower:
        """The tower of a function, which is kept.

        Raises:
            Exception: There is none: whatever a converter meets.
        """
        parts = self._split(function)
        wanted = [*parts.cut, *parts.reads, *_outlets(parts.before)]
        tensors = self._tensorflow.add("tower", parts.before, function.definition, wanted)
        content = self._convert(parts, tensors, function)
        self._cache.write(_key(function), parts.before, content)
        return self._assembled(self._session(content), tensors, function)

    @cached_property
    def _meta(self) -> Any:
        return saved_model.read_graph(self._path)

    def leave(self, function: Function) -> None:
        """Keeps that a function has no tower, whatever there was of it."""
        self._cache.write(_key(function), graph_pb2.GraphDef(), b"")

    def kept(self, function: Function) -> tuple[bool, Tower | None]:
        """Whether something was kept of a function and is whole, and the tower if it was one."""
        try:
            kept = self._cache.read(_key(function))
            if kept is None:
                return False, None
            before, content = kept
            if not content:
                return True, None
            session = self._session(content)
            wanted = [*(one.name for one in session.get_inputs()), *_outlets(before)]
            tensors = self._tensorflow.add("tower", before, function.definition, wanted)
            return True, self._assembled(session, tensors, function)
        except Exception as error:  # whatever is in a file that is damaged
            reason = " ".join(str(error).split())
            names = ", ".join(function.keys)
            _LOGGER.warning("Signatures %s are converted again: %s", names, reason[:300])
            return False, None

    def _split(self, function: Function) -> Split:
        """The function in two; without its strings where they wait for the numbers."""
        flat = flattened(self._meta, function.outputs)
        graph = self._tensorflow.graph
        types = {
            name: graph.get_tensor_by_name(name).dtype.as_datatype_enum for name in function.outputs
        }
        whole = with_outlets(flat, function.outputs, types)
        numbers: list[str] = []
        strings: list[str] = []
        for i, name in enumerate(function.outputs):
            (strings if types[name] == types_pb2.DT_STRING else numbers).append(outlet(i))
        parts = split(whole, numbers or strings, convertible())
        behind = {node.name for node in parts.behind.node if node.op not in _NOTHING}
        if not parts.cut or not behind:
            raise FailedPrecondition(f"there is nothing behind {', '.join(parts.kept)}")
        free = [name for name in strings if not behind & needed_by(whole, name)]
        return split(whole, [*numbers, *free], convertible()) if free else parts

    def _convert(self, parts: Split, tensors: Mapping[str, str], function: Function) -> bytes:
        samples = []
        for sizes in SIZES:
            inputs = made_up(function.definition, *sizes)
            feeds = {function.definition.inputs[name].name: one for name, one in inputs.items()}
            wanted = {name: tensors[name] for name in parts.cut}
            samples.append(self._tensorflow.run_tensors(feeds, wanted, None))
        weights = self._tensorflow.run_tensors(
            {}, {name: tensors[name] for name in parts.reads}, None
        )
        taken = {
            name: (tf.as_dtype(samples[0][name].dtype), _open_shape(name, samples))
            for name in parts.cut
        }
        return converted(parts.behind, weights, taken, _outlets(parts.behind))

    def _session(self, content: bytes) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def _assembled(self, session: Any, tensors: Mapping[str, str], function: Function) -> Tower:
        import onnxruntime

        part = onnxruntime.RunOptions()
        part.only_execute_path_to_fetches = True
        gives = {one.name for one in session.get_outputs()}
        outlets = {name: outlet(i) for i, name in enumerate(function.outputs)}
        return Tower(
            self._tensorflow,
            session,
            {one.name: tensors[one.name] for one in session.get_inputs()},
            {name: one for name, one in outlets.items() if one in gives},
            {name: tensors[one] for name, one in outlets.items() if one in tensors},
            part,
        )


def _outlets(part: graph_pb2.GraphDef) -> list[str]:
    """The outlets that a part of a function has."""
    return [f"{node.name}:0" for node in part.node if node.name.startswith(OUTLET)]


def _key(function: Function) -> str:
    """What a tower is kept under: what it takes and gives."""
    taken = sorted(info.name for info in function.definition.inputs.values())
    return "\n".join([*taken, "", *function.outputs])


def _open_shape(name: str, samples: Sequence[Mapping[str, np.ndarray]]) -> Shape:
    first, second = (sample[name].shape for sample in samples)
    return tuple(a if a == b else None for a, b in zip(first, second, strict=True))
