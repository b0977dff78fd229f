"""One signature of a loaded model: what it takes, what it gives, and the call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common import errors
from serving.common.call import Call
from serving.common.signatures import WITH_CONTEXT
from serving.encoding.codec import decode, dtype_name, numpy_dtype

# Arrays by input name, the names of the outputs, the call -> arrays by output name.
Compute = Callable[
    [Mapping[str, np.ndarray], Sequence[str], Call], Coroutine[Any, Any, dict[str, np.ndarray]]
]


class Signature:
    """Checks named arrays against a SignatureDef, then computes.

    Args:
        key: Name of the signature.
        definition: Inputs and outputs as the SavedModel's file declares them.
        compute: Computes, or has it computed with others' in one batch.
    """

    def __init__(
        self,
        key: str,
        definition: meta_graph_pb2.SignatureDef,
        compute: Compute,
    ) -> None:
        self.key = key
        self.definition = definition
        self._compute = compute
        self._defaults = {name: decode(name, proto) for name, proto in definition.defaults.items()}
        self._required = set(definition.inputs) - set(self._defaults)
        self._inputs = {name: _declared(info) for name, info in definition.inputs.items()}
        self._dtypes = {name: numpy_dtype(enum) for name, (enum, _) in self._inputs.items()}
        dtypes = {name: numpy_dtype(info.dtype) for name, info in definition.outputs.items()}
        self._quantized = {name: dtype for name, dtype in dtypes.items() if dtype and dtype.names}
        self._sized = {
            name
            for name, (_, shape) in self._inputs.items()
            if shape is not None and any(dim is not None for dim in shape)
        }
        # Where every input and output starts with an open axis, that axis is the batch.
        shapes = [shape for _, shape in self._inputs.values()]
        shapes += [_declared(info)[1] for info in definition.outputs.values()]
        self.is_batched = not key.endswith(WITH_CONTEXT) and all(
            shape and shape[0] is None for shape in shapes
        )
        self.candidate_names: frozenset[str] = frozenset()

    @property
    def takes_examples_apart(self) -> bool:
        """Whether it takes one context, and the Examples of its candidates."""
        return self.key.endswith(WITH_CONTEXT) and set(self._inputs) == {"context", "examples"}

    def share_candidates(self, rows: Signature) -> None:
        """Notes the inputs of candidates: they have one axis more here than among the rows."""
        self.candidate_names = frozenset(
            name
            for name, (_, shape) in self._inputs.items()
            if shape is not None
            and (of_row := rows._inputs.get(name, (0, None))[1]) is not None
            and len(shape) == len(of_row) + 1
        )

    def wrap(self, wrap: Callable[[Compute], Compute]) -> None:
        """Puts something around the computation, such as what joins requests in a batch."""
        self._compute = wrap(self._compute)

    def covers(self, other: Signature) -> bool:
        """Whether it takes the same tensors as another signature, and gives all of its outputs."""
        own, theirs = self.definition, other.definition
        return _tensors(own.inputs) == _tensors(theirs.inputs) and (
            set(_tensors(own.outputs).values()) >= set(_tensors(theirs.outputs).values())
        )

    def output_of(self, other: Signature, name: str) -> str:
        """What it calls an output of a signature that it covers."""
        tensor = other.definition.outputs[name].name
        return next(own for own, info in self.definition.outputs.items() if info.name == tensor)

    def check_names(self, names: Iterable[str]) -> None:
        """Raises unless the names are those of the inputs."""
        received = set(names)
        if not self._required <= received <= set(self._inputs):
            raise errors.wrong_inputs(received, self._inputs, self._required)

    def select(self, output_filter: Sequence[str]) -> tuple[str, ...]:
        """The outputs to return: those of the filter, or all where it is empty."""
        outputs = self.definition.outputs
        for i, alias in enumerate(output_filter):
            if alias not in outputs:
                raise errors.unknown_output(alias, outputs)
            if alias in output_filter[:i]:
                raise errors.duplicate_output(alias)
        return tuple(output_filter) or tuple(outputs)

    @property
    def context_names(self) -> frozenset[str]:
        """The inputs that candidates share; none where the signature takes rows."""
        if not self.candidate_names:
            return frozenset()
        return frozenset(self._inputs) - self.candidate_names

    async def run(
        self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str], call: Call
    ) -> dict[str, np.ndarray]:
        """Outputs by name.

        Args:
            inputs: One array for each input.
            outputs: Names of the outputs to return.
            call: Who waits for it; it learns what was computed.

        Raises:
            InvalidArgument: A name, dtype or shape is not the signature's.
            ServingError: The computation failed, with TensorFlow's code.
        """
        self.check_names(inputs)
        inputs = {**self._defaults, **inputs}
        for name, array in inputs.items():
            self._check(name, array)
        if self.is_batched:
            _check_same(inputs, 0, "batch size (first dimension)")
        listed = {name: array for name, array in inputs.items() if name in self.candidate_names}
        _check_same(listed, 1, "number of candidates (second dimension)")
        call.signature, call.inputs = self.key, inputs
        call.rows, call.candidates = self.count(inputs)
        call.results = await self._compute(inputs, outputs, call)
        if self._quantized:  # TensorFlow gives their integers
            call.results = {
                name: array.view(self._quantized.get(name, array.dtype))
                for name, array in call.results.items()
            }
        return call.results

    def count(self, inputs: Mapping[str, np.ndarray]) -> tuple[int, int]:
        """Rows or requests, and the candidates in all of them."""
        for name in self.candidate_names:
            rows, candidates = inputs[name].shape[:2]
            return rows, rows * candidates
        rows = max([len(array) for array in inputs.values() if array.ndim], default=1)
        return rows, rows

    def _check(self, name: str, array: np.ndarray) -> None:
        enum, shape = self._inputs[name]
        if array.dtype != self._dtypes[name]:
            raise errors.InvalidArgument(
                f"input {name}: expected dtype {dtype_name(enum)}. "
                f"Received: {_tf_dtype(array).name}"
            )
        if shape is None or (len(shape) == array.ndim and name not in self._sized):
            return
        if len(array.shape) != len(shape) or any(
            want is not None and want != got for want, got in zip(shape, array.shape, strict=True)
        ):
            expected = "(" + ", ".join("?" if dim is None else str(dim) for dim in shape) + ")"
            raise errors.InvalidArgument(
                f"input {name}: expected rank {len(shape)} and shape {expected}. "
                f"Received: rank {array.ndim} and shape {array.shape}"
            )


Shape = tuple[int | None, ...]


def _tensors(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, str]:
    return {name: info.name for name, info in infos.items()}


def _declared(info: meta_graph_pb2.TensorInfo) -> tuple[int, Shape | None]:
    if info.tensor_shape.unknown_rank:
        return info.dtype, None
    return info.dtype, tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)


def _tf_dtype(array: np.ndarray) -> tf.DType:
    return tf.string if array.dtype == object else tf.as_dtype(array.dtype)


def _check_same(inputs: Mapping[str, np.ndarray], axis: int, what: str) -> None:
    if len({array.shape[axis] for array in inputs.values()}) > 1:
        sizes = {name: array.shape[axis] for name, array in sorted(inputs.items())}
        raise errors.InvalidArgument(f"inputs must have the same {what}. Received: {sizes}")
