"""One signature of a loaded model: its inputs, its outputs and its computation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common import errors
from serving.common.request import Arrays
from serving.common.request_trace import RequestTrace
from serving.common.signature_names import WITH_CONTEXT
from serving.encoding.array_values import Misfit, fitted
from serving.encoding.codec import decode
from serving.encoding.features import TensorSpec, check_histories, is_of_candidates
from serving.encoding.raw_values import takes_raw_values

# Arrays by input name, the names of the outputs, the trace -> arrays by output name.
Compute = Callable[[Arrays, Sequence[str], RequestTrace], dict[str, np.ndarray]]


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
        self.input_specs = _specs(definition.inputs)
        self.output_specs = _specs(definition.outputs)
        self.candidate_names: frozenset[str] = frozenset()
        self.optional: frozenset[str] = frozenset()  # of `add_optional`
        self._raw: frozenset[str] = frozenset()
        self._defaults = {name: decode(name, proto) for name, proto in definition.defaults.items()}
        self._required = set(definition.inputs) - set(self._defaults)
        self._quantized = {
            name: spec.numpy_dtype
            for name, spec in self.output_specs.items()
            if spec.numpy_dtype is not None and spec.numpy_dtype.names
        }
        self._sized = {
            name
            for name, spec in self.input_specs.items()
            if spec.shape is not None and any(dim is not None for dim in spec.shape)
        }
        # If every input and output starts with an open axis, that axis is the batch.
        specs = [*self.input_specs.values(), *self.output_specs.values()]
        self.is_batched = not key.endswith(WITH_CONTEXT) and all(
            spec.shape and spec.shape[0] is None for spec in specs
        )

    @property
    def takes_examples_apart(self) -> bool:
        """Whether it takes one context, and the Examples of its candidates."""
        return self.key.endswith(WITH_CONTEXT) and set(self.input_specs) == {"context", "examples"}

    def share_candidates(self, rows: Signature) -> None:
        """Finds the inputs of candidates, by the inputs of a signature of rows."""
        self.candidate_names = frozenset(
            name
            for name, spec in self.input_specs.items()
            if is_of_candidates(spec, rows.input_specs.get(name))
        )

    @property
    def takes_examples(self) -> bool:
        """Whether its inputs are serialized Examples."""
        return self.takes_examples_apart or set(self.input_specs) == {"inputs"}

    def take_raw_values(self, names: Collection[str]) -> None:
        """Takes values of other dtypes for these features, if their own dtype holds them."""
        self._raw = frozenset(
            name
            for name, spec in self.input_specs.items()
            if name in names and takes_raw_values(spec.numpy_dtype)
        )

    def add_optional(self, name: str, info: meta_graph_pb2.TensorInfo) -> None:
        """Adds an input that may be left out, for a layer around the computation."""
        self.definition.inputs[name].CopyFrom(info)
        self.input_specs[name] = TensorSpec.from_proto(info)
        self.optional |= {name}

    def allow_absent(self, names: Collection[str]) -> None:
        """Lets requests leave out inputs, which a layer around the computation completes."""
        self._required -= set(names)

    def wrap(self, wrap: Callable[[Compute], Compute]) -> None:
        """Puts a layer around the computation, such as batching."""
        self._compute = wrap(self._compute)

    def covers(self, other: Signature) -> bool:
        """Returns whether it has the same inputs as another signature, and all of its outputs."""
        definition, other_definition = self.definition, other.definition
        return _tensors(definition.inputs) == _tensors(other_definition.inputs) and (
            set(_tensors(definition.outputs).values())
            >= set(_tensors(other_definition.outputs).values())
        )

    def output_of(self, other: Signature, name: str) -> str:
        """Returns its name for an output of a signature that it covers."""
        tensor = other.definition.outputs[name].name
        return next(
            output for output, info in self.definition.outputs.items() if info.name == tensor
        )

    def check_names(self, names: Iterable[str]) -> None:
        """Raises unless the names are those of the inputs."""
        received = set(names)
        if not self._required <= received <= set(self.input_specs):
            known = set(self.input_specs)
            raise errors.InvalidArgument(
                f"input size does not match signature: {len(received)}!={len(known)} "
                f"len({_listed(received)}) != len({_listed(known)}). "
                f"Sent extra: {_listed(received - known)}. "
                f"Missing but required: {_listed(self._required - received)}."
            )

    def select(self, output_filter: Sequence[str]) -> tuple[str, ...]:
        """Returns the names of the outputs: those of the filter, or all if it is empty."""
        outputs = self.definition.outputs
        for i, alias in enumerate(output_filter):
            if alias not in outputs:
                raise errors.InvalidArgument(
                    f"output tensor alias not found in signature: {alias} "
                    f"Outputs expected to be in the set {_listed(outputs)}."
                )
            if alias in output_filter[:i]:
                raise errors.InvalidArgument(f"duplicate output tensor alias: {alias}")
        return tuple(output_filter) or tuple(outputs)

    @property
    def context_names(self) -> frozenset[str]:
        """The inputs that candidates share; none if the signature takes rows."""
        if not self.candidate_names:
            return frozenset()
        return frozenset(self.input_specs) - self.candidate_names

    def run(
        self, inputs: Arrays, outputs: Sequence[str], trace: RequestTrace
    ) -> dict[str, np.ndarray]:
        """Returns the outputs by name.

        Args:
            inputs: One array for each input.
            outputs: Names of the outputs to return.
            trace: The record of the request; it receives what is computed.

        Raises:
            InvalidArgument: A name, dtype or shape is not the signature's.
            ServingError: The computation failed, with TensorFlow's code.
        """
        self.check_names(inputs)
        inputs = {**self._defaults, **inputs}
        for name, array in inputs.items():
            if name in self._raw:
                inputs[name] = array = self._raw_values(name, array)
            self._check(name, array)
        sent = {name: spec for name, spec in self.input_specs.items() if name in inputs}
        check_histories(sent, lambda name: [inputs[name].shape[-1]], "the request")
        if self.is_batched:
            _check_same(inputs, 0, "batch size (first dimension)")
        of_candidates = {
            name: array for name, array in inputs.items() if name in self.candidate_names
        }
        _check_same(of_candidates, 1, "number of candidates (second dimension)")
        trace.signature, trace.inputs = self.key, inputs
        trace.rows, trace.candidates = self.count(inputs)
        results = self._compute(inputs, outputs, trace)
        for name, dtype in self._quantized.items():  # TensorFlow returns their integers
            if name in results:
                results[name] = results[name].view(dtype)
        trace.results = results
        return results

    def count(self, inputs: Arrays) -> tuple[int, int]:
        """Returns the number of rows or requests, and of the candidates in all of them."""
        for name in self.candidate_names:
            rows, candidates = inputs[name].shape[:2]
            return rows, rows * candidates
        rows = max([len(array) for array in inputs.values() if array.ndim], default=1)
        return rows, rows

    def _raw_values(self, name: str, array: np.ndarray) -> np.ndarray:
        dtype = self.input_specs[name].numpy_dtype
        if dtype is None:
            return array
        try:
            return fitted(array, dtype)
        except Misfit as misfit:
            raise errors.InvalidArgument(f"input {name}: {misfit}") from None

    def _check(self, name: str, array: np.ndarray) -> None:
        spec = self.input_specs[name]
        if array.dtype != spec.numpy_dtype:
            raise errors.InvalidArgument(
                f"input {name}: expected dtype {spec.dtype}. Received: {_tf_dtype(array).name}"
            )
        shape = spec.shape
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


def _specs(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, TensorSpec]:
    return {name: TensorSpec.from_proto(info) for name, info in infos.items()}


def _listed(names: Iterable[str]) -> str:
    return "{" + ",".join(sorted(names)) + "}"


def _tensors(infos: Mapping[str, meta_graph_pb2.TensorInfo]) -> dict[str, str]:
    return {name: info.name for name, info in infos.items()}


def _tf_dtype(array: np.ndarray) -> tf.DType:
    return tf.string if array.dtype == object else tf.as_dtype(array.dtype)


def _check_same(inputs: Arrays, axis: int, dimension: str) -> None:
    if len({array.shape[axis] for array in inputs.values()}) > 1:
        sizes = {name: array.shape[axis] for name, array in sorted(inputs.items())}
        raise errors.InvalidArgument(f"inputs must have the same {dimension}. Received: {sizes}")
